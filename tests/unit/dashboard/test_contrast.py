"""Text and charts can be read in both themes (WCAG AA), and what colours tell apart, patterns do too."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from contrast import between, contrast, distance, over

from dashboard.charts import learning_signal, planned_costs, theme
from dashboard.charts.strategy_heatmap import SCALE, UNMEASURED
from dashboard.charts.strategy_names import COLORS, strategy_fills
from dashboard.charts.worker_timeline import MAX_LANES, STRIP
from dashboard.views.run.response_html import STYLES
from dashboard.views.runs.run_table import KINDS, STATES
from dashboard.widgets.panel import STATE_COLORS
from engine.config import SpeculationConfig
from engine.speculation.strategy import Strategy
from longtail.schemas.plans import Influence, Offer, PlannedArm
from longtail.schemas.telemetry import Series

DASHBOARD = Path(__file__).parents[3] / "dashboard"
SETTINGS = tomllib.loads((DASHBOARD / ".streamlit" / "config.toml").read_text(encoding="utf-8"))["theme"]
STYLE = (DASHBOARD / "assets" / "contrast.css").read_text(encoding="utf-8")
THEMES = ("light", "dark")
TEXT, GRAPHICS, SEEN = 4.5, 3.0, 15.0
DRAWN: Mapping[str, Iterable[str]] = {
    "palette": theme.PALETTE,
    "workers": theme.WORKERS,
    "states": theme.WORKER_STATE_COLORS.values(),
    "phases": theme.PHASE_COLORS.values(),
    "strategies": COLORS.values(),
    "grey": [theme.GREY],
}


def of_theme(name: str) -> tuple[str, str]:
    """Text and page."""
    return SETTINGS[name]["textColor"], SETTINGS[name]["backgroundColor"]


@pytest.mark.parametrize("name", THEMES)
def test_text_can_be_read(name: str) -> None:
    text, page = of_theme(name)
    (faded,) = re.findall(r"stCaptionContainer.*opacity: ([\d.]+)", STYLE)
    assert contrast(text, page) >= 7
    assert contrast(over(text, float(faded), page), page) >= TEXT, "captions"
    assert contrast(over(SETTINGS[name]["codeTextColor"], float(faded), page), page) >= TEXT, "the id of a run"
    (unknown,) = re.findall(r"opacity:([\d.]+)", STYLES["unknown"].css)
    assert contrast(over(text, float(unknown), page), page) >= TEXT, "tokens of which nobody knows what drafted them"
    primary = SETTINGS[name]["primaryColor"]
    assert contrast(primary, over(primary, 0.1, page)) >= TEXT, "what is chosen: on a tenth of its own colour"


def test_primary_buttons_and_choices_can_be_read_in_either_theme() -> None:
    grounds = re.findall(r"background-color: (#\w{6})", STYLE)
    (text,) = re.findall(r"\bcolor: (#\w{6}) !important", STYLE.replace("background-color", "").replace("border-color", ""))[-1:]
    assert len(grounds) == 3, "buttons at rest and under the mouse, and what is chosen of many"
    assert all(contrast(text, ground) >= TEXT for ground in grounds)
    assert all(contrast(grounds[0], of_theme(name)[1]) >= GRAPHICS for name in THEMES)


def test_what_colours_tell_apart_in_a_plan_patterns_do_too() -> None:
    offers = [Offer(machines=f"h100:{n}", gpus=n, hours=1.0, dollars=1.0, plain_hours=2.0, plain_dollars=2.0) for n in (8, 16)]
    costs = planned_costs.costs_by_gpus(offers).data
    assert len({line.line.dash for line in costs}) == len(costs)
    assert len({line.marker.symbol for line in costs}) == len(costs)
    marks = planned_costs.influences([Influence(input="response length", half=3.0, twice=9.0)], 5.0).data
    assert len({mark.marker.symbol for mark in marks}) == len(marks)
    arm: dict[str, Any] = {"step_seconds": 6.0, "hours": 1.0, "dollars": 1.0, "checkpoint": 0.0, "idle_share": 0.1, "accept_length": 1.0}
    phases = dict.fromkeys(theme.PHASE_COLORS, 1.0)
    bars = planned_costs.phases_by_arm([PlannedArm(name="TLT", phases=phases, unused_share=0.0, strategies={}, **arm)]).data
    assert len({bar.marker.pattern.shape for bar in bars}) == len(bars) == len(phases)


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("kind", DRAWN)
def test_what_is_drawn_stands_out_from_the_page(name: str, kind: str) -> None:
    ratios = {color: round(contrast(color, of_theme(name)[1]), 2) for color in DRAWN[kind]}
    assert min(ratios.values()) >= GRAPHICS, ratios


def test_no_two_workers_nor_states_share_a_colour() -> None:
    lane_and_curves = [*theme.WORKER_STATE_COLORS.values(), *theme.WORKERS]
    for colors in (lane_and_curves, theme.PALETTE, list(theme.PHASE_COLORS.values())):
        apart = {pair: round(distance(*pair)) for pair in combinations(colors, 2)}
        assert min(apart.values()) >= SEEN, sorted(apart.items(), key=lambda found: found[1])[:3]
    lines = [theme.worker_line(worker) for worker in range(MAX_LANES)]
    looks = {(line["color"], line["dash"]) for line in lines}
    assert len(looks) == MAX_LANES
    rate = Series(steps=[0, 1], values=[5.0, 6.0])
    throughput = learning_signal.throughput(rate, {f"worker {worker}": rate for worker in range(MAX_LANES)})
    assert throughput is not None
    whole, *workers = [(curve.line.color, curve.line.dash) for curve in throughput.data]
    assert workers == [(line["color"], line["dash"]) for line in lines], "as on the timeline"
    assert whole not in looks


def test_patterns_tell_apart_what_colours_do() -> None:
    assert len(set(theme.WORKER_STATE_SHAPES.values())) == len(theme.WORKER_STATE_COLORS)
    assert len(set(theme.PHASE_SHAPES.values())) == len(theme.PHASE_COLORS)
    usual = ["off", *(str(Strategy.of(strategy)) for strategy in SpeculationConfig().strategies)]
    assert len(set(strategy_fills(usual).values())) == len(usual)
    told = Series(steps=[0, 1], values=[0.25, 0.5])
    groups = learning_signal.groups({"all_right_share": told, "all_wrong_share": told})
    lengths = learning_signal.lengths_by_outcome({"right_tokens": told, "wrong_tokens": told})
    assert groups is not None
    assert lengths is not None
    assert len({area.fillpattern.shape for area in groups.data}) == len(groups.data) == 3
    assert len({curve.line.dash for curve in lengths.data}) == len(lengths.data) == 2


def test_what_drafts_stands_out_from_the_lane_of_a_worker_that_generates() -> None:
    for _, style in STRIP.values():
        assert contrast(style["color"], theme.WORKER_STATE_COLORS["BUSY"]) >= GRAPHICS
    looks = [(style["color"], bool(style.get("pattern"))) for _, style in STRIP.values()]
    assert len(set(looks)) == len(looks)


def test_the_heat_map_can_be_read_and_its_unmeasured_cells_are_not_the_brightest() -> None:
    shades = between(SCALE)
    assert min(contrast(theme.BLACK, shade) for shade in [*shades, UNMEASURED]) >= TEXT
    bright = [contrast(theme.BLACK, shade) for shade in shades]
    assert bright == sorted(bright), "ever lighter"
    assert contrast(theme.BLACK, UNMEASURED) < bright[-1]
    assert min(distance(UNMEASURED, shade) for shade in shades) >= SEEN


def test_states_of_runs_have_colours_of_their_own_that_text_can_be_read_on() -> None:
    assert len(set(STATES.values())) == len(STATES)
    assert len(set(STATE_COLORS.values())) == len(STATE_COLORS)
    for color in (*STATES.values(), *KINDS.values()):
        assert max(contrast(color, text) for text in (theme.BLACK, theme.WHITE)) >= TEXT


def test_the_theme_has_the_palette_of_the_charts() -> None:
    assert tuple(SETTINGS["chartCategoricalColors"]) == theme.PALETTE
