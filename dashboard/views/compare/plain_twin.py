"""The plain twin of a run: where there is one, be it yet to begin, the way to it, else a button that starts it."""

from collections.abc import Sequence

import streamlit as st

from dashboard import page_files
from dashboard.analysis.run_config import plain_baseline, run_kind
from dashboard.auth.api_client import client, me
from dashboard.data.glances import glances, look_again
from dashboard.data.submission_key import submission_key, submitted
from dashboard.text.escaping import escaped
from dashboard.text.run_labels import run_labels
from dashboard.widgets.api_errors import explained
from dashboard.widgets.page_switch import switch_page
from longtail.schemas.runs import Run

LONGEST = 40


def plain_twins(runs: Sequence[Run], compared: Sequence[Run]) -> None:
    """A button for each of the runs, but for one that is plain itself, or that no worker carries; with its id where another of those
    that are ``compared`` has its name."""
    known = glances([run for run in runs if run_kind(run) == "TLT"])
    names = run_labels(compared, LONGEST)
    with st.container(horizontal=True):
        for run in runs:
            if run.id in known:
                _plain_twin(run, escaped(names[run.id]), known[run.id].partner_id or known[run.id].awaited_id)


def _plain_twin(run: Run, name: str, twin_id: str | None) -> None:
    if twin_id is not None:
        if st.button(f"Compare {name} with its plain twin", key=f"twin-{run.id}"):
            switch_page(page_files.COMPARE, {"runs": f"{twin_id},{run.id}"})
    elif me().may_write and st.button(f"Run the plain twin of {name}", key=f"twin-{run.id}", type="primary"):
        with explained():
            plain = plain_baseline(run.config)
            made = client().clone(run.id, plain, idempotency_key=submission_key("twin", plain, run.id))
            submitted("twin")
            look_again(run.id)
            switch_page(page_files.RUN, {"id": made.id})
