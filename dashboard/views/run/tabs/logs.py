"""What the run says: the newest lines, those before them, and those with a word in them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Any, get_args

import streamlit as st

from dashboard.auth.api_client import client
from dashboard.data.offline_cache import fetch_or_cached
from dashboard.data.run_data import RunData
from dashboard.text.escaping import without_colors
from dashboard.text.formats import count
from dashboard.views.run.tabs.tab import Tab
from longtail import Longtail
from longtail.schemas.telemetry import Level, LogLine

HEIGHT, PAGE = 640, 200
LEVELS: tuple[Level, ...] = get_args(Level)
BEFORE = "log-before-"
LONGEST_SECONDS = 5.0
"""Lines come in the midst of a step, too: so long are those shown that were there."""
state = st.session_state


def show(data: RunData) -> None:
    again: dict[str, Any] = {"on_change": _newest, "args": (data.run.id,)}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        contains = st.text_input("Search", key="log-search", placeholder="text in any case", max_chars=200, width=320, **again)
        levels = st.pills("Levels", LEVELS, selection_mode="multi", key="log-levels", **again)
        buttons = st.container(horizontal=True, horizontal_alignment="right")
    pages = state.setdefault(BEFORE + data.run.id, [])
    before = pages[-1] if pages else None
    wanted: dict[str, Any] = {"before": before, "levels": levels, "contains": contains}
    api, run_id = client(), data.run.id
    asked, since = (run_id, contains, *levels, before), max(data.asked_at, monotonic() - LONGEST_SECONDS)
    lines = fetch_or_cached("log-lines", asked, lambda: api.logs(run_id, tail=PAGE, **wanted), since)
    if lines is None:
        return
    buttons.button("Older", disabled=len(lines) < PAGE, on_click=lambda: pages.append(lines[0].id), key="log-older")
    buttons.button("Newer", disabled=not pages, on_click=lambda: pages.pop(), key="log-newer")
    buttons.download_button(
        "Download", lambda: whole(api, run_id), f"{run_id}.log", "text/plain", on_click="ignore", help="The whole log as text"
    )
    with st.container(height=HEIGHT, autoscroll=True):
        st.code(text(lines) or ("No line is like that." if contains or levels else "Nothing logged yet."), language=None, wrap_lines=True)
    shown = count(len(lines), "line")
    st.caption(f"{shown}, the newest last" if before is None else f"{shown}; there are newer ones")


def _newest(run_id: str) -> None:
    state.pop(BEFORE + run_id, None)


def whole(api: Longtail, run_id: str) -> str:
    """All lines, as the page shows them."""
    parts: list[str] = []
    since = 0
    while lines := api.logs(run_id, since):
        parts.append(text(lines))
        since = lines[-1].id
    return "".join(f"{part}\n" for part in parts)


def text(lines: Sequence[LogLine]) -> str:
    """A line for each, with its time in UTC, level and step."""
    return "\n".join(_line(line) for line in lines)


def _line(line: LogLine) -> str:
    where = "" if line.step is None else f"step {line.step}: "
    return f"{datetime.fromtimestamp(line.time, UTC):%Y-%m-%d %H:%M:%S}  {line.level:<7}  {where}{without_colors(line.message)}"


TAB = Tab("Logs", show)
