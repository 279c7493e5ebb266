"""All series of a run: found by a regular expression, drawn as one likes, pinned for every run, and taken away."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import streamlit as st

from dashboard.analysis.metric_search import PatternError, matching
from dashboard.analysis.series import finite
from dashboard.auth.api_client import client
from dashboard.charts.explored_metric import ExploreOptions, RunningTotal, explored_metric
from dashboard.data.offline_cache import fetch_or_cached
from dashboard.data.preferences import change, preference
from dashboard.data.run_data import RunData
from dashboard.text.escaping import escaped
from dashboard.text.formats import count
from dashboard.text.metric_meanings import meaning
from dashboard.views.run.tabs.tab import Tab
from dashboard.widgets.one_of import one_of
from dashboard.widgets.panel import chart, empty, panel, to_come
from longtail import Longtail
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import Series

PINNED = "pinned-metrics"
CHARTS, COLUMNS = 12, 3
STEPS, TIME, TOKENS = "steps", "time", "tokens"
TOTALS = {TIME: ("step_seconds", "training time (seconds)"), TOKENS: ("generated_tokens", "generated tokens")}
WINDOWS = (1, 3, 5, 9, 15, 25, 51, 101)


def show(data: RunData) -> None:
    run, api = data.run, client()
    keys = fetch_or_cached("metric-keys", run.id, lambda: [series.key for series in api.metric_keys(run.id)], data.asked_at)
    if keys is None:
        return
    if not keys:
        empty(to_come("Each series that the run reports will appear here."))
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        pattern = st.text_input(
            "Find", key="metric-find", bind="query-params", placeholder="regular expression: reward|length", max_chars=200, width=260
        )
        over = one_of("Over", (STEPS, TIME, TOKENS), "metric-over")
        window = st.selectbox("Smoothing (steps)", WINDOWS, key="metric-window", bind="query-params", width=140)
        log_x, log_y = (st.toggle(f"Log {axis}", key=f"metric-log-{axis}", bind="query-params") for axis in "xy")
        st.space("stretch")
        place = st.container(width="content")
    pinned = preference(PINNED)
    try:
        found = matching(keys, pattern, pinned)
    except PatternError as error:
        st.error(f"That is no regular expression: {escaped(str(error))}. Escape signs such as ( or [ with a backslash.")
        return
    pages = -(-len(found) // CHARTS)
    page = st.pagination(pages, key="metric-page") if pages > 1 else 1
    shown = found[(min(page, pages) - 1) * CHARTS :][:CHARTS]
    asked = [*shown, *(key for key, _ in TOTALS.values())]
    series = fetch_or_cached("metric-series", (run.id, *asked), lambda: api.metrics(run.id, asked).series, data.asked_at) or {}
    if over in TOTALS and not _known(series, TOTALS[over][0]):
        st.caption(f"Over steps, as the run does not report {TOTALS[over][0]}.")
    total = RunningTotal.of(series[TOTALS[over][0]], TOTALS[over][1]) if over in TOTALS and _known(series, TOTALS[over][0]) else None
    if total is not None and (short := short_axis(total)):
        st.caption(short)
    options = ExploreOptions(window, log_x, log_y, total)
    place.download_button(
        "Download points",
        partial(points, api, run, found),
        f"{run.id}-metrics.csv",
        "text/csv",
        on_click="ignore",
        help="Of all that are found",
    )
    st.caption(f"{len(found):,} series of {len(keys):,}")
    _charts(shown, series, options, pinned)


def short_axis(total: RunningTotal) -> str | None:
    return f"The axis is too short: {total.unit} is not known of {count(total.unknown, 'step')}." if total.unknown else None


def _charts(keys: Sequence[str], series: dict[str, Series], options: ExploreOptions, pinned: Sequence[str]) -> None:
    for first in range(0, len(keys), COLUMNS):
        for column, key in zip(st.columns(COLUMNS), keys[first : first + COLUMNS], strict=False):
            with column, panel(escaped(key), meaning(key)) as head:
                label = "Unpin" if key in pinned else "Pin"
                head.button(
                    label, key=f"pin-{key}", type="tertiary", on_click=_pin, args=(key,), help="Pinned charts come first, of every run"
                )
                chart(
                    explored_metric(key, series.get(key, Series()), options),
                    f"metric-{key}",
                    "No value above 0." if options.log_y and finite(series.get(key, Series())) else "Not measured.",
                )


def _pin(key: str) -> None:
    wanted = key not in preference(PINNED)
    change(PINNED, lambda pinned: [*(each for each in pinned if each != key), *([key] if wanted else [])])


def points(api: Longtail, run: Run, keys: Sequence[str]) -> bytes:
    """Every point, not thinned, as CSV."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "points.csv"
        api.export_metrics(file, "csv", keys, run=[run.id])
        return file.read_bytes()


def _known(series: dict[str, Series], key: str) -> bool:
    return key in series and any(value is not None for value in series[key].values)


TAB = Tab("Metrics", show, fits=lambda run: not run.trains_drafter_only)
