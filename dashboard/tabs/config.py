"""With what a run was made, and what its attempts ran in."""

from collections.abc import Mapping
from typing import Any

import streamlit as st
import yaml

from backend.schemas.runs import Run
from dashboard.connection import client, me
from dashboard.differences import differences, shown
from dashboard.feed import Feed
from dashboard.formats import plain
from dashboard.known import known
from dashboard.panels.attempts import attempts
from dashboard.panels.frame import panel
from dashboard.tabs.tab import Tab

LEFT_OUT = ("name", "seed")
"""In these every run differs."""
HELP = "The fields that are not as in the preset chosen, at first the nearest one. Name and seed are left out."


def show(feed: Feed) -> None:
    run = feed.run
    if run.kind != "tracked":
        _differences(run)
    with panel("Configuration", "Complete, with all defaults. The button in its corner copies it.") as head:
        if "clone" in run.actions and me().may_write:
            head.page_link("views/new.py", label="Clone with changes", query_params={"from": run.id})
        st.code(yaml.safe_dump(run.config, sort_keys=False, allow_unicode=True), language="yaml", height=480)
    attempts(run, known("attempts", (run.id, run.attempt), lambda: client().attempts(run.id)) or ())


@st.cache_data(ttl=60, show_spinner=False)
def _presets() -> dict[str, dict[str, Any]]:
    """Presets, each with every default filled in."""
    return {preset.title: preset.config for preset in client().presets()}


def _differences(run: Run) -> None:
    presets = known("presets", None, _presets)
    if not presets:
        return
    with panel("Differences", HELP) as head:
        found = {name: differences(_core(run.config), _core(config)) for name, config in presets.items()}
        nearest = min(range(len(found)), key=lambda place: len([*found.values()][place]))
        other = head.selectbox("Compared with", list(presets), nearest, key="config-other", label_visibility="collapsed", width=280)
        if not found[other]:
            st.caption(f"Nothing but name and seed differs from {plain(other)}.")
            return
        columns = {"this run": [row.mine for row in found[other]], plain(other): [row.other for row in found[other]]}
        st.table(
            {"Field": [f"`{row.field}`" for row in found[other]]}
            | {name: [plain(shown(value)) for value in values] for name, values in columns.items()},
            border="horizontal",
            hide_index=True,
        )


def _core(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in LEFT_OUT}


TAB = Tab("Config", show)
