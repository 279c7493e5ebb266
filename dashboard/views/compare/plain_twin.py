"""The plain twin of a run: where there is one, the way to it, else a button that starts it."""

import streamlit as st

from dashboard import page_files
from dashboard.analysis.run_config import plain_baseline, run_kind
from dashboard.auth.api_client import client, me
from dashboard.data.glances import partner
from dashboard.text.escaping import escaped
from dashboard.text.formats import short
from dashboard.widgets.api_errors import explained
from longtail.schemas.runs import Run

LONGEST = 40


def plain_twin(run: Run) -> None:
    """Nothing for a run that is plain itself, or that no worker carries."""
    if run_kind(run) != "TLT":
        return
    name = escaped(short(run.name, LONGEST))
    if (twin := partner(run)) is not None:
        if st.button(f"Compare {name} with its plain twin", key=f"twin-{run.id}"):
            st.switch_page(page_files.COMPARE, query_params={"runs": f"{twin.id},{run.id}"})
    elif me().may_write and st.button(f"Run the plain twin of {name}", key=f"twin-{run.id}", type="primary"):
        with explained():
            made = client().clone(run.id, plain_baseline(run.config))
            st.switch_page(page_files.RUN, query_params={"id": made.id})
