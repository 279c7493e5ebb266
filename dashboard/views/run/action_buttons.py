"""What can be done with a run, as buttons. The API says which; what makes a new run leads to that one's page."""

from collections.abc import Callable
from uuid import uuid4

import streamlit as st

from dashboard import page_files
from dashboard.auth.api_client import client, me
from dashboard.text.escaping import escaped
from dashboard.widgets.api_errors import explain
from longtail import ApiError, Longtail
from longtail.schemas.runs import Action, Run

BUTTONS: dict[Action, tuple[str, str, Callable[..., Run]]] = {
    "pause": ("Pause", "Stops at the next step boundary, or after the round of a pretraining, with a checkpoint.", Longtail.pause),
    "resume": ("Resume", "Goes on from the last checkpoint.", Longtail.resume),
    "retry": ("Retry", "Makes a new run that goes on from the last checkpoint of this one.", Longtail.retry),
}
ASKED, REFUSED, RETRY_KEY = "cancelling", "refused", "retry-key-"


def action_buttons(run: Run) -> None:
    """Nothing for those who may only look. A click acts before the page is drawn: a page that is being drawn anew would lose it. Clicked
    twice, or again after a failure, Retry makes one new run."""
    if not me().may_write:
        return
    for action, (label, explanation, act) in BUTTONS.items():
        if action in run.actions:
            once = {"idempotency_key": st.session_state.setdefault(RETRY_KEY + run.id, uuid4().hex)} if action == "retry" else {}
            st.button(label, help=explanation, key=f"{action}-{run.id}", on_click=_do, args=(run.id, act), kwargs=once)
    if "clone" in run.actions:
        st.page_link(page_files.NEW_RUN, label="Clone", help="Opens the form with this run's configuration.", query_params={"from": run.id})
    if not run.finished:
        st.button("Cancel run", disabled=run.cancel_requested, key=f"cancel-{run.id}", on_click=_ask, args=(run.id,))
        if st.session_state.get(ASKED) == run.id:
            confirm_cancel(run.id, run.name)
    if run.id in (refusal := st.session_state.get(REFUSED, {})):
        explain(refusal[run.id])


def _ask(run_id: str) -> None:
    st.session_state[ASKED] = run_id


def _forget() -> None:
    st.session_state.pop(ASKED, None)


@st.dialog("Cancel this run?", on_dismiss=_forget)
def confirm_cancel(run_id: str, name: str) -> None:
    st.write(f"{escaped(name)} stops within seconds. What it has written stays, and a new run can go on from its last checkpoint.")
    with st.container(horizontal=True, horizontal_alignment="right"):
        kept = st.button("Keep running", on_click=_forget)
        if st.button("Cancel the run", type="primary", on_click=_do, args=(run_id, Longtail.cancel)) or kept:
            st.rerun()


def _do(run_id: str, act: Callable[..., Run], **once: str) -> None:
    _forget()
    st.session_state[REFUSED] = {}
    try:
        st.query_params["id"] = act(client(), run_id, **once).id
        st.session_state.pop(RETRY_KEY + run_id, None)
    except ApiError as error:
        st.session_state[REFUSED] = {run_id: error}
