"""One run: is it training, is it faster, why?"""

import streamlit as st

from dashboard import page_files
from dashboard.data.glances import partner
from dashboard.text.escaping import visible
from dashboard.views.run import header
from dashboard.views.run.chosen_run import chosen_run
from dashboard.views.run.follow import follow, forget_others
from dashboard.widgets.api_errors import answered
from dashboard.widgets.panel import charts_ahead

REFRESH_SECONDS = 2

with answered((page_files.RUNS, "All runs")), charts_ahead():
    run = chosen_run()
    forget_others(run)
    st.set_page_config(page_title=f"{visible(run.name)} · Longtail")
    following = header.heading(run, partner(run))
    st.fragment(follow, run_every=REFRESH_SECONDS if following else None)(run, following)
