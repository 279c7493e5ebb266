"""The picture of ``bench e2e --scenario drift``: how the seconds of each arm add up over the steps of a run."""

from collections.abc import Iterator, Mapping, Sequence
from math import floor, log10
from typing import Any

from engine.bench.svg import BOLD, document, text

LINES = {"plain": ("plain decoding", "#666666"), "static": ("static drafter", "#E69F00"), "tlt": ("Longtail (TLT)", "#0072B2")}
LEFT, RIGHT, TOP, BOTTOM = 64, 650, 24, 324
HEIGHT = 380
APART = 18
"""Least distance of two lines of text."""


def draw(result: Mapping[str, Any]) -> str:
    """An SVG of the medians over seeds. A dotted line is at the step from which on TLT is ahead of the drafter that stays the same."""
    drift = result["drift"]
    curves: Mapping[str, Sequence[float]] = drift["wall_by_step_s"]
    across, most = (RIGHT - LEFT) / drift["steps"], max(max(curve) for curve in curves.values())
    upward = (BOTTOM - TOP) / most
    body = [*_axes(drift["steps"], across, most, upward), *_crossover(drift["crossover_step"], across)]
    for arm, curve in curves.items():
        points = " ".join(f"{LEFT + step * across:.1f},{BOTTOM - y * upward:.1f}" for step, y in enumerate([0.0, *curve]))
        body.append(f'<polyline points="{points}" fill="none" stroke="{LINES[arm][1]}" stroke-width="2.5"/>')
    return document(HEIGHT, [*body, *_names(curves, upward)])


def ticks(most: float) -> list[float]:
    """From 0 to ``most`` at distances of 1, 2 or 5 times a power of ten: three to seven."""
    power = 10.0 ** floor(log10(most / 3))
    distance = max(factor * power for factor in (1, 2, 5) if factor * power <= most / 3)
    return [step * distance for step in range(floor(most / distance) + 1)]


def spaced(heights: Mapping[str, float]) -> dict[str, float]:
    """Each at its height, or so far below the one above it that both can be read."""
    placed: dict[str, float] = {}
    for name, height in sorted(heights.items(), key=lambda each: each[1]):
        placed[name] = max(height, max(placed.values(), default=-APART) + APART)
    return placed


def _axes(steps: int, across: float, most: float, upward: float) -> Iterator[str]:
    for seconds in ticks(most):
        y = BOTTOM - seconds * upward
        yield f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="#DDDDDD"/>'
        yield text(LEFT - 8, y + 5, f"{seconds:g} s", 'text-anchor="end"')
    for step in ticks(steps):
        yield text(LEFT + step * across, BOTTOM + 22, f"{step:g}", 'text-anchor="middle"')
    yield text((LEFT + RIGHT) / 2, BOTTOM + 46, "steps of the run", 'text-anchor="middle"')


def _crossover(step: int | None, across: float) -> Iterator[str]:
    if step is not None:
        x = LEFT + step * across
        yield f'<path d="M{x:.1f} {TOP}V{BOTTOM}" stroke="#222222" stroke-dasharray="2 4"/>'
        yield text(x + 6, TOP + 12, f"ahead from step {step} on")


def _names(curves: Mapping[str, Sequence[float]], upward: float) -> Iterator[str]:
    """Beside the ends of the lines."""
    for arm, y in spaced({arm: BOTTOM - curve[-1] * upward for arm, curve in curves.items()}).items():
        words, shade = LINES[arm]
        yield text(RIGHT + 8, y + 5, f"{words}: {curves[arm][-1]:.0f} s", BOLD).replace("#222222", shade)
