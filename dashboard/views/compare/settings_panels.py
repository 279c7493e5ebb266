"""What settings did to figures: a scatter of any two, and all of them as parallel coordinates."""

from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard.analysis.config_differences import one_line_yaml
from dashboard.charts.settings_against_figures import Value, parallel_coordinates, scatter
from dashboard.text.escaping import escaped
from dashboard.text.natural_order import natural_order
from dashboard.views.compare.figures import ComparisonFigures
from dashboard.widgets.panel import chart, empty, panel
from longtail.schemas.comparison import ComparedRun, flat

MEASURES: Mapping[str, str] = {
    "reward_last": "reward, last quarter",
    "seconds_per_step": "seconds a step",
    "e2e_speedup": "speed-up",
    "rollout_share": "rollout share",
    "accept_length": "accept length",
    "harvest": "harvest",
}
NOT_OF_ONE_STEP = frozenset({"reward_recent", "reward_spread", "step_seconds_recent", "accept_recent"})
"""Keys of a summary."""
OVER = "Figures are over the steps that all these runs have, but for those of the latest step, of which each run has its own."
SCATTER = f"A mark for each run: a setting in which they differ, and any figure. Few runs show a trend, never a cause. {OVER}"
PARALLEL = f"A line for each run, through its settings and what came of them. Each axis goes from its least to its greatest value. {OVER}"


def settings_panels(figures: ComparisonFigures) -> None:
    items, names = figures.comparison.items, figures.names
    settings = [difference.field for difference in figures.comparison.config_diff]
    titles = figure_titles(items)

    def title(axis: str) -> str:
        return titles.get(axis, axis)

    with panel("Any figure against any setting", SCATTER) as head:
        if not settings:
            empty("The runs have the same configuration.")
            return
        x = head.selectbox("Setting", settings, key="setting", bind="query-params", label_visibility="collapsed", width=220)
        y = head.selectbox(
            "Figure", list(titles), format_func=title, key="figure", bind="query-params", label_visibility="collapsed", width=220
        )
        points = {names[item.run.id]: (setting_of(item, x), figure_of(item, y)) for item in items}
        chart(scatter(points, x, title(y)), "scatter", "No run has both.")
        if missing := without_mark(points):
            st.caption(missing)
    with panel("Settings and what came of them", PARALLEL) as head:
        first = [*settings[:4], "reward_last", "seconds_per_step"]
        axes = head.multiselect(
            "Axes",
            [*settings, *titles],
            first,
            format_func=title,
            key="axes",
            label_visibility="collapsed",
            width=620,
            max_selections=10,
        )
        lines = {names[item.run.id]: axis_values(item, axes, settings) for item in items}
        chart(parallel_coordinates(lines, [title(axis) for axis in axes]), "parallel", "Choose two axes or more.")


def figure_titles(items: Sequence[ComparedRun]) -> dict[str, str]:
    """By key: the measures, and what the runs' summaries know of their latest steps beside these."""
    known = {key for item in items for key in item.run.summary} - MEASURES.keys() - NOT_OF_ONE_STEP
    return {**MEASURES, **{key: f"{key}, latest step" for key in sorted(known, key=natural_order)}}


def without_mark(points: Mapping[str, tuple[Value, Value]]) -> str | None:
    """As Markdown, which of the runs that ``scatter`` gets it leaves out; None if it leaves out none, or all."""
    missing = [escaped(name) for name, pair in points.items() if None in pair]
    return f"Without a mark, as one of the two is not known: {', '.join(missing)}" if 0 < len(missing) < len(points) else None


def axis_values(item: ComparedRun, axes: Sequence[str], settings: Sequence[str]) -> list[Value]:
    return [setting_of(item, axis) if axis in settings else figure_of(item, axis) for axis in axes]


def setting_of(item: ComparedRun, field: str) -> Value:
    """None if the run has no such setting; one that is null is a value like others."""
    settings = dict(flat(item.run.config))
    value = settings.get(field)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else one_line_yaml(value) if field in settings else None  # type: ignore[arg-type]


def figure_of(item: ComparedRun, key: str) -> float | None:
    found = getattr(item.shared, key, None) if key in MEASURES else item.run.summary.get(key)
    return None if found is None else float(found)
