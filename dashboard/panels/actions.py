"""What can be done with a run, as buttons. The API says which; what makes a new run leads to that one's page."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from backend.client import ApiError, Longtail
from backend.schemas.runs import Action, Run
from dashboard.connection import client, explain, me
from dashboard.formats import plain

BUTTONS: dict[Action, tuple[str, str, Callable[[Longtail, str], Run]]] = {
    "pause": ("Pause", "Stops at the next step boundary, with a checkpoint.", Longtail.pause),
    "resume": ("Resume", "Goes on from the last checkpoint.", Longtail.resume),
    "retry": ("Retry", "Makes a new run that goes on from the last checkpoint of this one.", Longtail.retry),
    "clone": ("Clone", "Makes a new run with the same configuration.", Longtail.clone),
}


def actions(run: Run) -> None:
    """Nothing for those who may only look."""
    if not me().may_write:
        return
    for action, (label, explanation, act) in BUTTONS.items():
        if action in run.actions and st.button(label, help=explanation):
            _do(partial(act, client(), run.id))
    if not run.finished and st.button("Cancel run", disabled=run.cancel_requested):
        confirm_cancel(run.id, run.name)


@st.dialog("Cancel this run?")
def confirm_cancel(run_id: str, name: str) -> None:
    st.write(f"{plain(name)} stops within seconds. What it has written stays, and a new run can go on from its last checkpoint.")
    with st.container(horizontal=True, horizontal_alignment="right"):
        if st.button("Keep running"):
            st.rerun()
        if st.button("Cancel the run", type="primary"):
            _do(partial(client().cancel, run_id))


def _do(request: Callable[[], Run]) -> None:
    try:
        run = request()
    except ApiError as error:
        explain(error)
        return
    st.query_params["id"] = run.id
    st.rerun()
