"""One run: is it training, is it faster, why?"""

import streamlit as st

from backend.client import ApiError
from backend.schemas.comparison import Comparison
from backend.schemas.runs import Run
from dashboard.connection import answered, client, explain
from dashboard.feed import Feed, refreshed
from dashboard.pairs import partner, speculates
from dashboard.panels import head, live
from dashboard.panels.metrics import metrics
from dashboard.panels.records import records

REFRESH_SECONDS = 2


@st.cache_data(ttl=5, show_spinner=False)
def recent_runs() -> list[Run]:
    return client().runs(limit=100).items


def compared(run: Run, other: Run | None) -> Comparison | None:
    """The plain run of the two is the baseline."""
    if other is None:
        return None
    baseline, tlt = (run, other) if speculates(other.config) else (other, run)
    return client().compare(baseline.id, [tlt.id])


def chosen() -> Run:
    """The run that the address names, or else the newest."""
    if run_id := st.query_params.get("id"):
        return client().run(run_id)
    runs = recent_runs()
    if not runs:
        st.info("There is no run yet.")
        st.page_link("views/new.py", label="Start one")
        st.stop()
    st.query_params["id"] = runs[0].id
    return runs[0]


def show(feed: Feed, comparison: Comparison | None) -> None:
    head.failure(feed.run)
    head.progress(feed.run, feed.series("step_seconds"))
    if feed.run.kind == "tracked":
        metrics(feed)
    else:
        _charts(feed, comparison)
    records(feed)


def _charts(feed: Feed, comparison: Comparison | None) -> None:
    live.first_questions(feed, comparison)
    live.training_charts(feed)
    live.worker_timeline(feed)
    live.length_charts(feed)
    live.speculation_charts(feed)


def follow(run: Run, following: bool) -> None:
    """The part of the page that a run changes. Held still, or while the API is away, it shows what was known last."""
    key = f"known-{run.id}"
    if following or key not in st.session_state or run.finished:
        try:
            feed = refreshed(st.session_state[key][0] if key in st.session_state else Feed(run), client())
            st.session_state[key] = feed, compared(feed.run, partner(feed.run, recent_runs()))
        except ApiError as error:
            explain(error)
    if key not in st.session_state:
        return
    feed, comparison = st.session_state[key]
    show(feed, comparison)
    if following and (feed.run.state, feed.run.actions) != (run.state, run.actions):
        st.rerun()


with answered():
    run = chosen()
    following = head.title(run, partner(run, recent_runs()))
    st.fragment(follow, run_every=REFRESH_SECONDS if following else None)(run, following)
