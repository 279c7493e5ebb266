"""The plain twin of a run: where there is one, the way to it, else a button that starts it."""

from collections.abc import Sequence

import streamlit as st

from dashboard import page_files
from dashboard.analysis.run_config import plain_baseline, run_kind
from dashboard.auth.api_client import client, me
from dashboard.data.glances import glances
from dashboard.text.escaping import escaped
from dashboard.text.formats import short
from dashboard.widgets.api_errors import explained
from longtail.schemas.runs import Run

LONGEST = 40


def plain_twins(runs: Sequence[Run]) -> None:
    """A button for each, but for a run that is plain itself, or that no worker carries."""
    known = glances([run for run in runs if run_kind(run) == "TLT"])
    with st.container(horizontal=True):
        for run in runs:
            if run.id in known:
                _plain_twin(run, known[run.id].partner_id)


def _plain_twin(run: Run, twin_id: str | None) -> None:
    name = escaped(short(run.name, LONGEST))
    if twin_id is not None:
        if st.button(f"Compare {name} with its plain twin", key=f"twin-{run.id}"):
            st.switch_page(page_files.COMPARE, query_params={"runs": f"{twin_id},{run.id}"})
    elif me().may_write and st.button(f"Run the plain twin of {name}", key=f"twin-{run.id}", type="primary"):
        with explained():
            made = client().clone(run.id, plain_baseline(run.config))
            st.switch_page(page_files.RUN, query_params={"id": made.id})
