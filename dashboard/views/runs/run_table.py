"""Runs as one grid, drawn on a canvas: a page of them is as fast as one, and foreign text is nothing but text."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import streamlit as st

from dashboard import page_files
from dashboard.analysis.run_config import run_kind
from dashboard.charts.theme import BLUE
from dashboard.text.escaping import without_shortcodes
from dashboard.text.formats import MISSING, ago, duration, number, typeable
from dashboard.views.runs.filters import sort_by, sorted_head
from dashboard.views.runs.navigation import go
from dashboard.views.runs.own_columns import cell
from dashboard.views.runs.selection import SELECTED, Rows, note_selection, rows_to_select
from longtail.schemas.run_overviews import RunOverview
from longtail.schemas.runs import Run

ROW_HEIGHT = 36
GREY, SKY, ORANGE, YELLOW, PURPLE, ROSE = "#D0D0D0", "#B5DCF5", "#FFCE70", "#FFEFB8", "#EBC3D9", "#F9E4EE"
GREEN, VERMILION = "#007A58", "#A83C00"
"""Near the palette of charts, so light or so dark that black or white text on them can be read; no two states share one."""
STATES: Mapping[str, str] = {
    "queued": GREY,
    "starting": SKY,
    "running": BLUE,
    "pausing": YELLOW,
    "paused": ORANGE,
    "cancelling": ROSE,
    "cancelled": PURPLE,
    "succeeded": GREEN,
    "failed": VERMILION,
}
KINDS: Mapping[str, str] = {"TLT": SKY, "plain": GREY, "tracked": ORANGE, "drafter": PURPLE}
column = st.column_config
UNDER_WAY = "of a script's run under way the latest value"
HELP: Mapping[str, str] = {
    "Rewards": "Mean reward over the steps, each run on its own scale",
    "Reward": f"Mean reward of the latest ten steps, and the standard deviation of these; {UNDER_WAY}",
    "Speed-up": "How many times as fast as the plain run of the same configuration, over the steps that both have",
    "Accept length": "Tokens that a pass of the target yields, its own included; plain decoding: 1. "
    f"Mean of the latest ten steps; {UNDER_WAY}",
    "Time a step": "Mean of the latest ten steps",
}


def row(run: Run, glance: RunOverview | None, now: datetime, projects: Mapping[str, str], own: Sequence[str] = ()) -> dict[str, Any]:
    """A run's cells by column; ``projects`` are names by id, ``own`` the columns of the visitor's own."""
    pace = glance.step_seconds if glance else None
    return {
        "Name": [without_shortcodes(run.name)],  # in a list, since a text in brackets would be taken for one
        "Kind": [run_kind(run)],
        "State": [run.doing],
        "Progress": 100 * run.share_done,
        "Step": "drafter" if run.pretrains else f"{run.step} / {run.steps}" if run.steps else str(run.step),
        "Time": typeable(_time(run, pace, now)),
        "Rewards": [value for value in glance.reward if value is not None] if glance else [],
        "Reward": reward(run.summary),
        "Speed-up": glance.speedup if glance and run_kind(run) == "TLT" else None,
        "Accept length": run.summary.get("accept_recent", run.summary.get("accept_length")),
        "Time a step": typeable(duration(pace)),
        "Created": typeable(ago(run.created_at, now)),
        "User": run.owner,
        "Project": projects.get(run.project_id),
        "Tags": run.tags,
        "Error": run.error and without_shortcodes(run.error),
        **{name: without_shortcodes(value) if isinstance(value := cell(run, name), str) else value for name in own},
    }


def reward(summary: Mapping[str, float | None]) -> str | None:
    """``0.512 ± 0.031``; of a script's run that is not finished the latest value, as nobody has summed up its others yet."""
    recent, spread = summary.get("reward_recent"), summary.get("reward_spread")
    if recent is None:
        latest = summary.get("reward_mean")
        return None if latest is None else number(latest, 3)
    return number(recent, 3) if spread is None else f"{number(recent, 3)} ± {number(spread, 3)}"


def _time(run: Run, pace: float | None, now: datetime) -> str:
    """How long it took, or is going to take."""
    if run.finished:
        return duration((run.finished_at - run.started_at).total_seconds()) if run.finished_at and run.started_at else MISSING
    if run.pretrains and run.pretraining and run.state == "running":
        first = run.seconds_to_pretrain(now)
        return f"{duration(first)} {'first' if run.steps else 'left'}" if first else "last round"
    left = run.steps - run.step
    return f"{duration(pace * left)} left" if pace and left > 0 and run.state == "running" else MISSING


def columns(runs: Sequence[Run], name: Any) -> dict[str, Any]:
    """How each column is drawn; None hides what is the same for all."""
    drawn = {
        "Name": name,
        "Kind": column.MultiselectColumn("Kind", options=list(KINDS), color=list(KINDS.values()), width=72),
        "State": column.MultiselectColumn(sorted_head("State"), options=list(STATES), color=list(STATES.values()), width=92),
        "Progress": column.ProgressColumn(format="%.0f %%", min_value=0, max_value=100, width=95),
        "Rewards": column.LineChartColumn(help=HELP["Rewards"], width=110),
        "Speed-up": column.NumberColumn(format="%.2f×", help=HELP["Speed-up"], width=75),
        "Accept length": column.NumberColumn(sorted_head("Accept length"), format="%.2f", help=HELP["Accept length"], width=105),
        "Tags": column.ListColumn(width=140),
    }
    texts = {"Step": 75, "Reward": 105, "Time": 105, "Time a step": 92, "Created": 88, "User": 70, "Project": 90, "Error": 260}
    drawn |= {key: column.TextColumn(sorted_head(key), help=HELP.get(key), width=width) for key, width in texts.items()}
    values: dict[str, set[str | None]] = {
        "User": {run.owner for run in runs},
        "Project": {run.project_id for run in runs},
        "Error": {None, *(run.error for run in runs)},
    }
    return drawn | {key: None for key, different in values.items() if len(different) == 1}


def run_table(
    runs: Sequence[Run], glances: Mapping[str, RunOverview], projects: Mapping[str, str], now: datetime, own: Sequence[str] = ()
) -> list[Run]:
    """The runs selected. A click on a name opens its run."""
    key = hashlib.sha256(",".join([*own, *(run.id for run in runs)]).encode()).hexdigest()[:12]
    ids = [run.id for run in runs]
    name = column.ButtonColumn(
        sorted_head("Name"), key=f"open-{key}", type="tertiary", alignment="left", pinned=True, width=210, on_click=partial(_open, key, ids)
    )
    rows: Rows = [[run_id] for run_id in ids]
    event = st.dataframe(
        [row(run, glances.get(run.id), now, projects, own) for run in runs],
        column_config=columns(runs, name),
        hide_index=True,
        height="content",
        row_height=ROW_HEIGHT,
        placeholder=MISSING,
        alt="Runs",
        key=f"runs-{key}",
        on_select=partial(_picked, f"runs-{key}", rows),
        selection_mode=["multi-row", "single-column"],
        selection_default={"selection": {"rows": rows_to_select(f"runs-{key}", rows)}},
    )
    selected = [runs[number] for number in event.selection.rows]
    st.session_state[SELECTED] = [run.id for run in selected]
    return selected


def _open(key: str, ids: Sequence[str]) -> None:
    go(page_files.RUN, "id", ids[st.session_state[f"open-{key}"].row])


def _picked(key: str, rows: Rows) -> None:
    """A column is never selected: a click on its head sorts."""
    note_selection(key, rows)
    selection = st.session_state[key].selection
    if selection.columns:
        sort_by(selection.columns[0])
        st.session_state[key] = {"selection": {"rows": selection.rows, "columns": []}}
