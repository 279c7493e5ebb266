"""What a run will take before it is submitted: time, memory and money, and what to change."""

import streamlit as st

from dashboard import page_files
from dashboard.analysis.run_config import speculates
from dashboard.auth.api_client import client, me
from dashboard.data.submission_key import submission_key, submitted
from dashboard.views.planner.answers import answers
from dashboard.views.planner.form import Wish, form, origin
from dashboard.widgets.api_errors import answered, explained
from dashboard.widgets.page_switch import switch_page
from dashboard.widgets.panel import charts_ahead
from longtail.schemas.plans import Plan

PLAN = "plan"


def planned(wish: Wish) -> Plan:
    run_id = wish.recorded.id if wish.recorded else None
    with st.spinner("It is simulated; this may take a minute"):
        return client().plan(wish.config, wish.gpus, price=wish.price, run_id=run_id, deadline=wish.deadline)


def submit(wish: Wish, workers: int) -> None:
    """The configuration that was planned, on as many workers."""
    config = {**wish.config, "cluster": {**wish.config["cluster"], "workers": workers}}
    with explained():
        run = client().submit(config, idempotency_key=submission_key("plan", config))
        submitted("plan")
        switch_page(page_files.RUN, {"id": run.id})


def page() -> None:
    chosen = origin()
    wish = form(chosen)
    if wish is not None:
        st.session_state.pop(PLAN, None)
        with explained({}):
            st.session_state[PLAN] = chosen.config, wish, planned(wish)
    known = st.session_state.get(PLAN)
    if known is None or known[0] != chosen.config:
        st.caption("Nothing runs: the planner simulates steps with the engine's own tuner, coordinator and scheduling.")
        return
    _, wish, plan = known
    if me().may_write and st.button("Submit this plan", key="submit-plan", help="Starts the run that was planned."):
        submit(wish, plan.workers)
    answers(plan, wish.recorded, speculates(wish.config))


st.header("Planner", anchor=False)
with answered(), charts_ahead():
    page()
