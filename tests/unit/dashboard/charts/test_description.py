"""What a chart tells those who do not see it."""

import plotly.graph_objects as go
import pytest

from dashboard.analysis.tuner_performance import StrategyUse
from dashboard.charts import metric_curves
from dashboard.charts.description import description, table
from dashboard.charts.learning_signal import reward_distribution
from dashboard.charts.settings_against_figures import parallel_coordinates
from dashboard.charts.strategy_heatmap import strategy_heatmap
from dashboard.charts.theme import figure
from dashboard.charts.worker_timeline import worker_timeline
from dashboard.widgets.chart_legend import legend_html
from longtail.schemas.telemetry import Lengths, Series, WorkerSpan

REWARD = Series(steps=[0, 1, 2], values=[0.25, 0.5, 0.375])


def test_a_curve_tells_where_it_begins_and_ends_and_lies() -> None:
    told = description(metric_curves.rewards({"reward": REWARD}, window=1))
    assert told == "Chart: mean reward by step. reward: 0.25 at 0, 0.375 at 2, between 0.25 and 0.5"


def test_the_table_has_a_row_for_each_step_and_a_column_for_each_curve() -> None:
    chart = metric_curves.values({"<b>": REWARD, "b": Series(steps=[1, 3], values=[7, 8])}, "y")
    assert table(chart) == {"step": [0, 1, 2, 3], "<b>": [0.25, 0.5, 0.375, None], "b": [None, 7, None, 8]}


def test_bands_and_dots_behind_a_curve_are_left_out() -> None:
    wide = Series(steps=[0, 4], values=[1, 2], low=[0, 1], high=[3, 4], width=4)
    assert table(metric_curves.values({"a": wide})) == {"step": [0, 4], "a": [1, 2]}


def test_parallel_coordinates_tell_values_not_heights() -> None:
    chart = parallel_coordinates({"one": (1e-6, "a", 0.25), "two": (3e-6, "b", None)}, ["fast.rate", "slow.rate", "reward"])
    assert chart is not None
    assert table(chart) == {" ": ["fast.rate", "slow.rate", "reward"], "one": [1e-6, "a", 0.25], "two": [3e-6, "b", None]}
    assert description(chart) == "Chart: . one: fast.rate 1e-06, slow.rate a, reward 0.25; two: fast.rate 3e-06, slow.rate b"


def test_many_curves_are_counted() -> None:
    told = description(metric_curves.values({f"run {number}": REWARD for number in range(9)}))
    assert told.count("between") == 6
    assert told.endswith("; and 3 more")


def test_lanes_are_told_by_what_was_done_how_long() -> None:
    spans = [WorkerSpan(step=0, worker=0, state="BUSY", start=10, end=13), WorkerSpan(step=0, worker=1, state="IDLE", start=12, end=13)]
    chart = worker_timeline(spans, origin=10)
    assert description(chart) == "Chart: who did what, by seconds since the start; altogether. BUSY 3; IDLE 1"
    assert table(chart) == {
        "lane": ["worker 0", "worker 1"],
        "what": ["BUSY", "IDLE"],
        "seconds since the start": [0, 2],
        "length": [3, 1],
    }


def test_a_heat_map_tells_the_fastest() -> None:
    uses = {1: {"off": StrategyUse(100, 40, 2.0), "old": StrategyUse(100, 90, 2.0)}}
    chart = strategy_heatmap(uses, "tokens per second")
    assert "old (45)" in description(chart)
    assert table(chart)[""] == ["plain", "old"]


@pytest.mark.parametrize("flat", [False, True])
def test_bars_are_told_in_whichever_direction_they_lie(flat: bool) -> None:
    chart = figure("seconds", "")
    places, values = ["a", "b"], [1.5, 2]
    chart.add_bar(**({"y": places, "x": values, "orientation": "h"} if flat else {"x": places, "y": values}), name="rollout")
    assert list(table(chart).values()) == [places, values]
    assert "rollout: 1.5 at a, 2 at b" in description(chart)


def test_nothing_drawn_is_nothing_told() -> None:
    assert description(go.Figure()) == "Chart: ."
    assert table(go.Figure()) == {" ": []}


def test_a_heatmap_without_texts_tells_its_last_column_and_its_numbers() -> None:
    facts = {"lengths": [3, 4], "truncated": 0, "p50": 3, "p75": 4, "p90": 4, "max": 4}
    steps = [Lengths(step=step, rewards=[0.0, min(step, 1.0)], **facts) for step in range(3)]
    chart = reward_distribution(steps)
    assert description(chart) == "Chart: reward by step. 0: 50 at 2; 1: 50 at 2"
    assert table(chart) == {"": ["1", "0"], "0": [0, 100], "1": [50, 50], "2": [50, 50]}
    assert "0 to 100 % of responses" in legend_html(chart), "a key to its colours"
