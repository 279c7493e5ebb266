"""One run: is it training, is it faster, why?"""

import streamlit as st

from backend.client import ApiError
from backend.schemas.comparison import Comparison
from backend.schemas.runs import Run
from dashboard.connection import answered, client, explain
from dashboard.feed import Feed, refreshed
from dashboard.glances import partner
from dashboard.pairs import speculates
from dashboard.panels import head, questions
from dashboard.panels.frame import charts_ahead
from dashboard.tabs import tabs_of
from dashboard.tabs.tab import loop

REFRESH_SECONDS = 2


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


def chosen() -> Run:
    """The run that the address names, or else the newest."""
    if run_id := st.query_params.get("id"):
        return client().run(run_id)
    runs = client().runs(limit=1).items
    if not runs:
        st.info("There is no run yet.")
        st.page_link("views/new.py", label="Start one")
        st.stop()
    st.query_params["id"] = runs[0].id
    return runs[0]


def follow(run: Run, following: bool) -> None:
    """The part of the page that a run changes. Held still, or while the API is away, it shows what was known last."""
    key = f"known-{run.id}"
    head_place, tabs = st.container(), tabs_of(run)
    opened = st.tabs([tab.name for tab in tabs], key="tab", bind="query-params")
    tab, place = next(((tab, place) for tab, place in zip(tabs, opened, strict=True) if place.open), (tabs[0], opened[0]))
    shown, feed, comparison = st.session_state.get(key, ((), Feed(run), None))
    if following or tab.name not in shown or run.finished:
        try:
            needs = tab.needs.and_(questions.NEEDS) if loop(run) else tab.needs
            feed = refreshed(feed, client(), needs)
            comparison = compared(feed.run, partner(feed.run))
            st.session_state[key] = {*shown, tab.name}, feed, comparison
        except ApiError as error:
            explain(error)
    with head_place:
        head.failure(feed.run)
        head.progress(feed.run, feed.series("step_seconds"), speedup(feed.run, comparison))
        if loop(run):
            questions.questions(feed, comparison)
    with place:
        tab.show(feed)
    if following and (feed.run.state, feed.run.actions) != (run.state, run.actions):
        st.rerun()


with answered(), charts_ahead():
    run = chosen()
    following = head.title(run, partner(run))
    st.fragment(follow, run_every=REFRESH_SECONDS if following else None)(run, following)
