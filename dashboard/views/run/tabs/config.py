"""With what a run was made, and what its attempts ran in."""

from collections.abc import Mapping
from typing import Any

import streamlit as st
import yaml

from dashboard import page_files
from dashboard.analysis.config_differences import config_differences, one_line_yaml
from dashboard.auth.api_client import client, me
from dashboard.data.offline_cache import fetch_or_cached
from dashboard.data.run_data import RunData
from dashboard.text.escaping import escaped
from dashboard.views.run.attempts import attempts
from dashboard.views.run.tabs.tab import Tab
from dashboard.widgets.panel import panel
from dashboard.widgets.table import table
from longtail.schemas.runs import Run

LEFT_OUT = ("name", "seed")
"""In these every run differs."""
HELP = "The fields that are not as in the preset chosen, at first the nearest one. Name and seed are left out."


def show(data: RunData) -> None:
    run = data.run
    if run.kind != "tracked":
        _differences(run)
    with panel("Configuration", "Complete, with all defaults. The button in its corner copies it.") as head:
        if "clone" in run.actions and me().may_write:
            head.page_link(page_files.NEW_RUN, label="Clone with changes", query_params={"from": run.id})
        st.code(yaml.safe_dump(run.config, sort_keys=False, allow_unicode=True), language=None, wrap_lines=True)
    attempts(run, fetch_or_cached("attempts", (run.id, run.attempt), lambda: client().attempts(run.id), data.asked_at) or ())


@st.cache_data(ttl=60, show_spinner=False)
def _presets() -> dict[str, dict[str, Any]]:
    """Presets, each with every default filled in."""
    return {preset.title: preset.config for preset in client().presets()}


def _differences(run: Run) -> None:
    presets = fetch_or_cached("presets", None, _presets)
    if not presets:
        return
    with panel("Differences", HELP) as head:
        found = {name: config_differences(_core(run.config), _core(config)) for name, config in presets.items()}
        nearest = min(range(len(found)), key=lambda place: len([*found.values()][place]))
        key = f"config-other-{run.id}"
        other = head.selectbox("Compared with", list(presets), nearest, key=key, label_visibility="collapsed", width=280)
        if not found[other]:
            st.caption(f"Nothing but name and seed differs from {escaped(other)}.")
            return
        table([{"Field": row.field, "this run": one_line_yaml(row.mine), other: one_line_yaml(row.other)} for row in found[other]])


def _core(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in LEFT_OUT}


TAB = Tab("Config", show)
