"""Tabs that stay where their reader puts them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.elements.lib.mutable_tab_container import TabContainer

RUNS = "runs of the script"
state = st.session_state


@dataclass
class _Shown:
    """What a page shows. ``run``: the one of the whole script that drew it last. ``chosen``: the tab that its reader opened last."""

    names: Sequence[str]
    run: int
    chosen: str | None = None


class _Names(list[str]):
    """Of the tabs that a page shows."""

    def __init__(self, shown: _Shown) -> None:
        super().__init__(shown.names)
        self.chosen = shown.chosen

    def index(self, name: str, *bounds: Any) -> int:
        """Which one Streamlit tells the page to open: a number without a tab, where its reader has opened it."""
        return len(self) if name == self.chosen else super().index(name, *bounds)


def count_run() -> None:
    """For the script, where it begins: where a whole run draws no tabs, the page shows them no more."""
    state[RUNS] = state.get(RUNS, 0) + 1


def tab_row(names: Sequence[str], key: str) -> Sequence[TabContainer]:
    """Of which the address names the open one, as ``key``. With each answer Streamlit tells the page to open the tab that the answer is
    for; but the reader can be two tabs farther by then. So only a tab that the reader did not open is told: of an address, or the first."""
    memory = f"{key}-shown"
    shown: _Shown | None = state.get(memory)
    if shown is None or list(shown.names) != list(names) or shown.run < state[RUNS] - 1:
        shown = _Shown(names, state[RUNS])
    shown.run = state[RUNS]
    state[memory] = shown

    def choose() -> None:
        shown.chosen = state[key]

    return st.tabs(_Names(shown), key=key, bind="query-params", on_change=choose)
