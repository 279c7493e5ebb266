"""What the model was asked, what it answered, and what drafted the tokens of that."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import streamlit as st

from backend.schemas.telemetry import SampleItem
from dashboard.connection import client
from dashboard.feed import SAMPLES, Feed
from dashboard.formats import number, plain, visible
from dashboard.known import known
from dashboard.panels.response import legend, response
from dashboard.pieces import told
from dashboard.tabs.tab import Needs, Tab, loop

HEIGHT, LAST_STEP = 900, 2**31 - 1
ORDERS: Mapping[str, Callable[[SampleItem], Any]] = {
    "newest first": lambda item: -item.step,
    "highest reward first": lambda item: -_reward(item),
    "lowest reward first": lambda item: _reward(item),
    "longest first": lambda item: -len(item.response),
    "shortest first": lambda item: len(item.response),
}


def show(feed: Feed) -> None:
    if not feed.samples:
        st.caption("A few responses of each step will appear here.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        step = st.number_input("Step", 0, LAST_STEP, None, key="sample-step", placeholder=f"the latest {SAMPLES} samples", width=240)
        order = st.selectbox("Order", list(ORDERS), key="sample-order", width=240)
        legend()
    found = _of_step(feed, step) if step is not None else feed.samples
    if not found:
        st.caption(f"Step {step} left no samples.")
    with st.container(height=HEIGHT, border=False):
        for item in sorted(found, key=ORDERS[order]):
            _sample(item)


def _of_step(feed: Feed, step: int) -> Sequence[SampleItem]:
    return known("samples-of-step", (feed.run.id, step), lambda: client().samples(feed.run.id, step=step)) or ()


def _sample(item: SampleItem) -> None:
    with st.container(border=True):
        st.markdown(f"step {item.step} · reward **{number(item.reward)}** · {plain(told(item.pieces))}")
        prompt, answer = st.columns([1, 3])
        prompt.code(visible(item.prompt), language=None, wrap_lines=True)
        with answer:
            response(item)


def _reward(item: SampleItem) -> float:
    return -inf if item.reward is None else item.reward


TAB = Tab("Samples", show, Needs(("samples",)), loop)
