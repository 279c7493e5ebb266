"""The list of runs: newest first, live; open one, or tick several and compare them."""

from collections.abc import Sequence
from datetime import UTC, datetime

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from backend.client import ApiError
from backend.schemas.runs import Run
from dashboard.connection import client, explain
from dashboard.formats import ago, duration, number, plain
from dashboard.pairs import kind, speculates
from dashboard.panels.frame import STATE_COLORS

REFRESH_SECONDS = 3
PAGE = 25
WIDTHS = (0.35, 3.4, 1.2, 2.2, 1, 1.1, 1.1, 1.2)
HEADINGS = ("", "Name", "State", "Progress", "Reward", "Time a step", "Accept length", "Created")


def newest(count: int, state: str | None, q: str | None) -> tuple[list[Run], bool]:
    """The first ``count`` runs, and whether there are more."""
    runs: list[Run] = []
    cursor: str | None = None
    while len(runs) < count:
        page = client().runs(state=state, q=q, limit=min(PAGE, count - len(runs)), cursor=cursor)
        runs += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    return runs, cursor is not None


def filters() -> tuple[str | None, str | None, DeltaGenerator]:
    """State, search and the place for a button beside them."""
    with st.container(horizontal=True, vertical_alignment="center"):
        query = st.text_input(
            "Search",
            type="search",
            placeholder="name or id",
            key="q",
            live=True,
            bind="query-params",
            label_visibility="collapsed",
            width=280,
        )
        state = st.pills("State", list(STATE_COLORS), key="state", bind="query-params", label_visibility="collapsed")
        st.space("stretch")
        return state, query or None, st.empty()


def comparison_button(runs: Sequence[Run], place: DeltaGenerator) -> None:
    """Among the ticked runs a plain one comes first: it is the baseline."""
    ticked = sorted(
        (run for run in runs if st.session_state.get(f"tick-{run.id}")), key=lambda run: (speculates(run.config), run.created_at)
    )
    label = f"Compare {len(ticked)} runs" if len(ticked) > 1 else "Tick two runs to compare"
    if place.button(label, disabled=len(ticked) < 2, type="primary" if len(ticked) > 1 else "secondary", key="compare"):
        st.switch_page("views/compare.py", query_params={"runs": ",".join(run.id for run in ticked)})


def row(run: Run, now: datetime) -> None:
    tick, name, state, progress, reward, pace, accept, created = st.columns(WIDTHS, vertical_alignment="center")
    tick.checkbox(f"Select {plain(run.name)}", key=f"tick-{run.id}", label_visibility="collapsed", persist_state="page")
    with name, st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="xsmall"):
        st.page_link("views/run.py", label=f"**{plain(run.name)}**", icon="", query_params={"id": run.id})
        st.badge(kind(run), color="violet" if kind(run) == "TLT" else "gray")
        for tag in run.tags:
            st.badge(plain(tag), color="gray")
    state.badge(
        run.doing,
        color=STATE_COLORS[run.state],
        help=run.error and plain(run.error),
    )
    progress.progress(run.share_done, text=f"{run.step} / {run.steps}" if run.steps else f"step {run.step}")
    reward.text(number(run.summary.get("reward_mean"), 3))
    pace.text(duration(run.summary.get("step_seconds")))
    accept.text(number(run.summary.get("accept_length")))
    created.text(ago(run.created_at, now))


@st.fragment(run_every=REFRESH_SECONDS)
def page() -> None:
    state, query, place = filters()
    try:
        runs, more = newest(st.session_state.setdefault("shown", PAGE), state, query)
    except ApiError as error:
        explain(error)
        return
    if not runs:
        nothing(filtered=bool(state or query))
        return
    comparison_button(runs, place)
    table(runs)
    if more and st.button("Show more"):
        st.session_state["shown"] += PAGE
        st.rerun(scope="fragment")


def table(runs: Sequence[Run]) -> None:
    with st.container(border=True, gap="xsmall"):
        for column, heading in zip(st.columns(WIDTHS), HEADINGS, strict=True):
            column.caption(heading)
        for run in runs:
            row(run, datetime.now(UTC))


def nothing(filtered: bool) -> None:
    if filtered:
        st.info("No run matches. Clear the search or choose another state.")
    else:
        st.info("No run yet. The first one takes a few minutes with the built-in model and task.", icon="👋")
        st.page_link("views/new.py", label="**Start a run**", icon="🚀")


st.header("Runs", anchor=False)
page()
