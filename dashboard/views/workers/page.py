"""What runs where, and what waits for it; live."""

from collections.abc import Sequence

import streamlit as st

from dashboard.auth.api_client import client
from dashboard.views.workers.queue_table import queue_table
from dashboard.views.workers.worker_table import worker_table
from dashboard.widgets.api_errors import explained
from longtail.schemas.queue import Queue, Worker

REFRESH_SECONDS = 3
MOST_WORKERS = 200
PAGE = 25


@st.fragment(run_every=REFRESH_SECONDS)
@explained()
def page() -> None:
    shown = st.session_state.setdefault("shown-queue", PAGE)
    waiting, processes = client().queue(min(shown, MOST_WORKERS)), client().workers(MOST_WORKERS).items
    totals(waiting, processes)
    worker_table(processes)
    queue_table(waiting)
    if len(waiting.items) == shown and st.button("Show more"):
        st.session_state["shown-queue"] += PAGE
        st.rerun(scope="fragment")


def totals(waiting: Queue, processes: Sequence[Worker]) -> None:
    limit = f" of at most {waiting.max_active}" if waiting.max_active else ""
    figures = {
        "Workers": str(sum(worker.alive and not worker.generated for worker in processes)),
        "Free slots": f"{waiting.free} of {waiting.slots}",
        "Runs under way": f"{waiting.active}{limit}",
        "Queued": str(waiting.total),
    }
    for column, (title, figure) in zip(st.columns(len(figures)), figures.items(), strict=True):
        column.metric(title, figure, border=True)
    if any(worker.alive and worker.generated for worker in processes):
        st.caption("Workers of demo data, and the runs that they seem to carry, are not counted.")


st.header("Workers and queue", anchor=False)
page()
