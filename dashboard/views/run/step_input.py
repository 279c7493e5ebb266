"""Choosing one step of a run, however long ago it was."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.data.run_data import OfStep
from dashboard.widgets.api_errors import explained

Item = TypeVar("Item", bound=OfStep)
LAST = 2**31 - 1


def step_input(place: DeltaGenerator, key: str, last: int) -> int:
    """The chosen step; at first the last one. A growing run leaves the choice alone."""
    st.session_state.setdefault(key, last)
    return int(place.number_input("Step", min_value=0, max_value=LAST, key=key, label_visibility="collapsed", width=130))


def of_step(items: Sequence[Item], fetch: Callable[[str, int, int], Sequence[Item]], run_id: str, step: int) -> Sequence[Item]:
    """Those of ``step``: the ones at hand, else what ``fetch`` (of a run, after a step and until one) gets."""
    with explained():
        return [item for item in items if item.step == step] or fetch(run_id, step - 1, step)
    return ()
