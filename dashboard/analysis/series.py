"""Series by step: thinned so that a long run draws as fast as a short one, and smoothed so that a noisy one can be read."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TypeVar

from longtail.schemas.telemetry import Series

MAX_POINTS = 400
Item = TypeVar("Item")
Points = list[tuple[float, float]]


def finite(series: Series) -> Points:
    return [(float(step), value) for step, value in zip(series.steps, series.values, strict=True) if value is not None]


def thinned(points: Sequence[tuple[float, float]], limit: int = MAX_POINTS) -> Points:
    """At most ``limit`` points: means over equal runs of neighbours."""
    if len(points) <= limit:
        return list(points)
    return [(fmean(step for step, _ in chunk), fmean(value for _, value in chunk)) for chunk in chunks(points, limit)]


def chunks(items: Sequence[Item], limit: int = MAX_POINTS) -> list[Sequence[Item]]:
    """Equal runs of neighbours, at most ``limit`` of them: so few that they can be drawn."""
    stride = max(-(-len(items) // limit), 1)
    return [items[i : i + stride] for i in range(0, len(items), stride)]


def extents(series: Series) -> list[int]:
    """How many steps each point stands for: of an envelope as many as until the next point, which may be a single one. So may the last one
    be, whose least and greatest value are the same then."""
    last_is_single = bool(series.low) and series.low[-1] == series.high[-1]
    ends = [*series.steps[1:], *(step + (1 if last_is_single else series.width) for step in series.steps[-1:])]
    return [min(end - begin, series.width) for begin, end in zip(series.steps, ends, strict=True)]


def stacked(lines: Mapping[str, Series], limit: int) -> tuple[list[float], dict[str, list[float]]]:
    """Of all ``lines`` means over the same runs of neighbours, at most ``limit`` of them, so that bars of them stand on each other: the
    middle of each run, and by name the means. A step that a line lacks counts as 0; a line without a value is left out."""
    lines = {name: line for name, line in lines.items() if finite(line)}
    longest = max(lines.values(), key=lambda line: sum(extents(line)), default=Series())
    parts = chunks([*zip(longest.steps, extents(longest), strict=True)], limit)
    begins, sizes = [part[0][0] for part in parts], [sum(size for _, size in part) for part in parts]
    means = {name: [0.0] * len(parts) for name in lines}
    for name, line in lines.items():
        for step, value, size in zip(line.steps, line.values, extents(line), strict=True):
            place = max(bisect_right(begins, step) - 1, 0)
            means[name][place] += (value or 0.0) * size / sizes[place]
    return [fmean(step for step, _ in part) for part in parts], means


def smoothed(points: Sequence[tuple[float, float]], window: int) -> Points:
    """Means over a centred window of steps, which is cut off at both ends so that the curve neither lags nor leaves a gap."""
    half = window // 2
    values = [value for _, value in points]
    return [(step, fmean(values[max(0, i - half) : i + half + 1])) for i, (step, _) in enumerate(points)]


def band(series: Series, limit: int = MAX_POINTS) -> list[tuple[float, float, float]]:
    """Step, least and greatest value of a series that came as an envelope, at most ``limit`` of them; nothing of one that came whole."""
    found = [
        (float(step), low, high)
        for step, low, high in zip(series.steps, series.low, series.high, strict=False)
        if low is not None and high is not None
    ]
    return [
        (fmean(step for step, _, _ in chunk), min(low for _, low, _ in chunk), max(high for _, _, high in chunk))
        for chunk in chunks(found, limit)
    ]
