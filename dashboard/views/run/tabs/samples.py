"""What the model was asked, what it answered, and what drafted the tokens of that."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import streamlit as st

from dashboard.auth.api_client import client
from dashboard.data.offline_cache import fetch_or_cached
from dashboard.data.run_data import SAMPLES, DataQuery, RunData
from dashboard.text.escaping import escaped, visible
from dashboard.text.formats import number
from dashboard.views.run import response_html
from dashboard.views.run.tabs.tab import Tab, training_run
from longtail.schemas.telemetry import SampleItem

HEIGHT, LAST_STEP = 900, 2**31 - 1
ORDERS: Mapping[str, Callable[[SampleItem], Any]] = {
    "newest first": lambda item: -item.step,
    "highest reward first": lambda item: -_reward(item),
    "lowest reward first": lambda item: _reward(item),
    "longest first": lambda item: -len(item.response),
    "shortest first": lambda item: len(item.response),
}


def show(data: RunData) -> None:
    if not data.samples:
        st.caption("A few responses of each step will appear here.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        step = st.number_input("Step", 0, LAST_STEP, None, key="sample-step", placeholder=f"the latest {SAMPLES} samples", width=240)
        order = st.selectbox("Order", list(ORDERS), key="sample-order", width=240)
        st.html(response_html.legend(), width="content")
    found = data.samples
    if step is not None:
        found = fetch_or_cached("samples-of-step", (data.run.id, step), lambda: client().samples(data.run.id, step=step)) or ()
    if not found:
        st.caption(f"Step {step} left no samples.")
    with st.container(height=HEIGHT, border=False):
        for item in sorted(found, key=ORDERS[order]):
            _sample(item)


def _sample(item: SampleItem) -> None:
    with st.container(border=True):
        st.markdown(f"step {item.step} · reward **{number(item.reward)}** · {escaped(response_html.drafted_shares(item.pieces))}")
        prompt, answer = st.columns([1, 3])
        prompt.code(visible(item.prompt), language=None, wrap_lines=True)
        with answer:
            st.html(response_html.response(item.response, item.pieces))


def _reward(item: SampleItem) -> float:
    return -inf if item.reward is None else item.reward


TAB = Tab("Samples", show, DataQuery(("samples",)), training_run)
