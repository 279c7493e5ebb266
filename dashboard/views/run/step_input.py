"""Choosing one step of a run, however long ago it was."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.data.offline_cache import fetch_or_cached
from dashboard.data.run_data import OfStep, RunData

Item = TypeVar("Item", bound=OfStep)
LAST = 2**31 - 1


def step_input(place: DeltaGenerator, key: str, last: int) -> int:
    """The chosen step; at first the last one. A growing run leaves the choice alone."""
    st.session_state.setdefault(key, last)
    return int(place.number_input("Step", min_value=0, max_value=LAST, key=key, label_visibility="collapsed", width=130))


def of_step(data: RunData, items: Sequence[Item], step: int, key: str, fetch: Callable[[str, int, int], Sequence[Item]]) -> Sequence[Item]:
    """Those of ``step``: the ones at hand, else what ``fetch`` (of a run, after a step and until one) gets, which is kept by ``key``."""
    if here := [item for item in items if item.step == step]:
        return here
    run_id = data.run.id
    return fetch_or_cached(key, (run_id, step), lambda: fetch(run_id, step - 1, step), data.asked_at) or ()
