"""Groups of runs side by side: the mean over the seeds of each, and the range between the least and the greatest."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from dashboard.analysis.seed_means import means_by
from dashboard.charts.comparison_curves import TITLES, CurveOptions, curve_points
from dashboard.charts.theme import add_band, add_curve, color, figure, height_for_curves, label, line, range_mode
from longtail.schemas.comparison import AlignedMetric


def group_bands(metric: AlignedMetric, groups: Mapping[str, Sequence[Sequence[str]]], view: CurveOptions) -> go.Figure:
    """``groups``: by the name in the legend the run ids of each seed, whose mean is what it counts with. Over steps; a step that one seed
    of a group lacks is a mean over the others."""
    steps_only = CurveOptions(False, view.window, view.log_x, view.log_y)
    chart = figure("steps done" if view.log_x else "step", TITLES.get(metric.key, label(metric.key)), height_for_curves(len(groups)))
    drawn: list[float] = []
    for index, (name, seeds) in enumerate(groups.items()):
        values: dict[float, list[float]] = {}
        for run_ids in seeds:
            for x, value in means_by(point for run_id in run_ids for point in curve_points(metric, run_id, steps_only, None)).items():
                values.setdefault(x, []).append(value)
        xs = sorted(values)
        if len(seeds) > 1 and xs:
            add_band(chart, [(x, min(values[x]), max(values[x])) for x in xs], color(index))
        drawn += [value for found in values.values() for value in found]
        mean = [(x, sum(values[x]) / len(values[x])) for x in xs]
        add_curve(chart, mean, name=label(name), line=line(index), hovertemplate="%{y:.4g}")
    chart.update_layout(showlegend=True).update_xaxes(type="log" if view.log_x else "linear")
    return chart.update_yaxes(type="log" if view.log_y else "linear", rangemode=range_mode(drawn))
