"""The part of a run's page that follows the run: its head, and the open tab."""

from time import monotonic

import streamlit as st

from dashboard import page_files
from dashboard.analysis.run_config import speculates
from dashboard.auth.api_client import client, run_if_any
from dashboard.data.glances import partner
from dashboard.data.refresh_pace import RefreshPace
from dashboard.data.run_data import RunData, refreshed
from dashboard.text.guides import GUIDES
from dashboard.views.help import tour
from dashboard.views.run import header, question_cards
from dashboard.views.run.chosen_run import LAST_TAB
from dashboard.views.run.tab_list import tabs_of
from dashboard.views.run.tabs.tab import engine_run
from dashboard.widgets.api_errors import explained
from dashboard.widgets.panel import nothing_to_come
from dashboard.widgets.popover import popover
from dashboard.widgets.tab_row import tab_row
from longtail.schemas.comparison import Comparison
from longtail.schemas.runs import Run

COMPARISON_SECONDS = 15


def compared(run: Run, other: Run | None) -> Comparison | None:
    """The plain run of the two is the baseline."""
    if other is None:
        return None
    baseline, tlt = (run, other) if speculates(other.config) else (other, run)
    return client().compare(baseline.id, [tlt.id])


def speedup(run: Run, comparison: Comparison | None) -> float | None:
    """Of a run that is compared with its baseline."""
    items = comparison.items[1:] if comparison else []
    return next((item.e2e_speedup for item in items if item.run.id == run.id), None)


@st.fragment
def how_to_read(tab: str, run: Run) -> None:
    guide = GUIDES[tab]

    def show() -> None:
        st.markdown(f"**{guide.question}**  \n{guide.read}")
        st.code(f"{guide.rest.format(run=run.id)}\n{guide.command.format(run=run.id)}", language="bash", wrap_lines=True, width=520)
        st.page_link(page_files.HELP, label="All words and tabs")

    with st.container(horizontal=True, horizontal_alignment="right"):
        popover("How to read this", f"read-{tab}", show, type="tertiary")


def follow(run: Run, following: bool) -> None:
    """The part of the page that a run changes. Held still, or while the API is away, it shows what was known last."""
    key = f"known-{run.id}"
    head_place, tabs = st.container(), tabs_of(run)
    chosen, place = tab_row([tab.name for tab in tabs])
    tab = next(tab for tab in tabs if tab.name == chosen)
    st.session_state[LAST_TAB] = chosen
    if tour.follow_tab(run.id, chosen):
        st.rerun()
    shown, data, comparison = st.session_state.get(key, ((), RunData(run), None))
    if following or tab.name not in shown or run.finished:
        with explained():
            latest = run_if_any(run.id) if shown else run
            if latest is None:
                st.rerun()  # the page says that the run is gone
            pace: RefreshPace = st.session_state.setdefault(f"pace-{run.id}", RefreshPace())
            began = monotonic()
            if pace.is_due(latest, tab.name, began) or tab.name not in shown:
                query = tab.query.merged(question_cards.query(data.run)) if engine_run(run) else tab.query
                data = refreshed(data, client(), query, latest)
                if data.run.finished or pace.is_old("comparison", began, COMPARISON_SECONDS):
                    comparison = compared(data.run, partner(data.run))
                pace.took = monotonic() - began
                shown = {*shown, tab.name}
                st.session_state[key] = shown, data, comparison
    with head_place:
        header.failure(data.run)
        header.progress(data.run, data.series("step_seconds"), speedup(data.run, comparison))
        if engine_run(run) and shown:
            question_cards.question_cards(data, comparison)
    with place, nothing_to_come(data.run.finished):
        how_to_read(tab.name, run)
        if tab.name in shown:  # without an answer of the API nothing is told of it
            tab.show(data)
    if following and (data.run.state, data.run.actions) != (run.state, run.actions):
        st.rerun()


def forget_others(run: Run) -> None:
    """What is known of runs that were looked at before: it may be some 20 MB each."""
    for key in [str(key) for key in st.session_state if str(key).startswith(("known-", "pace-"))]:
        if not key.endswith(run.id):
            del st.session_state[key]
