"""Charts of whatever one chooses: a metric over time or tokens, groups of seeds, settings against figures, and what groups teach."""

import pytest

from dashboard.charts import learning_signal
from dashboard.charts.comparison_curves import CurveOptions, comparison_curves
from dashboard.charts.explored_metric import ExploreOptions, RunningTotal, explored_metric
from dashboard.charts.group_bands import group_bands
from dashboard.charts.metric_curves import rewards
from dashboard.charts.settings_against_figures import parallel_coordinates, scatter
from dashboard.views.run.tabs.metrics import short_axis
from longtail.schemas.comparison import AlignedMetric
from longtail.schemas.telemetry import Lengths, Series


def test_an_axis_of_tokens_counts_what_was_generated_by_then() -> None:
    total = RunningTotal.of(Series(steps=[0, 1, 2], values=[10.0, None, 30.0]), "generated tokens")
    assert [total.at(done) for done in (0, 1, 2, 3)] == [0, 10, 10, 40]
    buckets = RunningTotal.of(Series(steps=[0, 4], values=[10.0, 20.0], low=[1, 1], high=[2, 2], width=4), "x")
    assert [buckets.at(done) for done in (0, 4, 8)] == [0, 40, 120], "a bucket counts as often as it has steps"
    figure = explored_metric("kl", Series(steps=[0, 1, 2], values=[1.0, 2.0, 3.0]), ExploreOptions(total=total))
    assert figure is not None
    assert (list(figure.data[0].x), figure.layout.xaxis.title.text) == ([10, 10, 40], "generated tokens")


def test_an_axis_that_lacks_steps_says_so() -> None:
    whole = RunningTotal.of(Series(steps=[0, 4], values=[10.0, 20.0], low=[1, 1], high=[2, 2], width=4), "training time (seconds)")
    assert (whole.unknown, short_axis(whole)) == (0, None)
    gaps = RunningTotal.of(Series(steps=[0, 1, 4], values=[10.0, None, 30.0]), "training time (seconds)")
    assert gaps.unknown == 3
    assert short_axis(gaps) == "The axis is too short: training time (seconds) is not known of 3 steps."


def test_the_axis_of_what_is_never_negative_has_no_negative_part() -> None:
    """Else a share that was always 0 would be drawn from -1 to 1."""
    for values, mode in (([0.0, 0.0], "nonnegative"), ([0.5, -0.5], "normal")):
        figure = explored_metric("kl", Series(steps=[0, 1], values=values), ExploreOptions())
        assert figure is not None
        assert figure.layout.yaxis.rangemode == mode


def test_a_comparison_of_what_is_never_negative_has_no_negative_part() -> None:
    for value, mode in ((0.0, "nonnegative"), (-0.5, "normal")):
        metric = AlignedMetric(key="kl", span=1, steps=[0, 1], values={"a": [0.0, 0.0], "b": [0.0, value]})
        by_run = comparison_curves(metric, {"a": "a", "b": "b"}, CurveOptions(), {})
        by_group = group_bands(metric, {"seeds": [["a"], ["b"]]}, CurveOptions())
        assert [figure.layout.yaxis.rangemode for figure in (by_run, by_group)] == [mode, mode]


def test_what_has_no_value_has_no_chart_and_smoothing_counts_steps() -> None:
    assert explored_metric("kl", Series(steps=[0], values=[None]), ExploreOptions()) is None
    below = Series(steps=[0, 1], values=[-1.0, 0.0])
    assert explored_metric("kl", below, ExploreOptions(log_y=True)) is None
    assert explored_metric("kl", below, ExploreOptions()) is not None
    wide = Series(steps=[0, 8, 16], values=[0.0, 3.0, 6.0], low=[0, 3, 6], high=[0, 3, 6], width=8)
    for window, middle in ((5, 3.0), (24, 3.0)):
        figure = explored_metric("kl", wide, ExploreOptions(window, log_x=True))
        assert figure is not None
        first, second, _ = figure.data[-1].y
        assert (first, second) == (0.0 if window == 5 else 1.5, middle)
        assert list(figure.data[-1].x) == [1, 9, 17]
    assert list(rewards({"reward": wide}, window=5).data[-1].y) == [0.0, 3.0, 6.0], "five steps are less than a bucket"


def test_groups_are_drawn_as_their_mean_and_range() -> None:
    metric = AlignedMetric(key="reward_mean", span=1, steps=[0, 1], values={"a": [0.0, 1.0], "b": [1.0, None], "c": [5.0, 5.0]})
    band, mean, alone = group_bands(metric, {"seeds": [["a"], ["b"]], "other": [["c"]]}, CurveOptions()).data
    assert list(band.y) == [0.0, 1.0, 1.0, 1.0]
    assert (list(mean.y), mean.name, list(alone.y)) == ([0.5, 1.0], "seeds", [5.0, 5.0])
    band, mean = group_bands(metric, {"the first seed has two runs": [["a", "b"], ["c"]]}, CurveOptions()).data
    assert (list(band.y), list(mean.y)) == ([0.5, 1.0, 5.0, 5.0], [2.75, 3.0])
    (repeated,) = group_bands(metric, {"of one seed": [["a", "b"]]}, CurveOptions()).data
    assert list(repeated.y) == [0.5, 1.0]


def test_a_setting_may_be_a_number_or_a_word() -> None:
    figure = scatter({"one": (1.0, 2.0), "two": (3.0, None)}, "algorithm.learning_rate", "kl")
    assert figure is not None
    assert (len(figure.data), figure.layout.xaxis.type) == (1, "linear")
    words = scatter({"one": ("eagle", 2.0), "two": ("hass", 1.0)}, "drafter.recipe", "kl")
    assert words is not None
    assert words.layout.xaxis.type == "category"
    assert scatter({"one": (None, 2.0)}, "a", "b") is None


def test_parallel_axes_go_from_the_least_to_the_greatest() -> None:
    figure = parallel_coordinates({"one": (1.0, "a", 5.0), "two": (3.0, "b", None), "three": (2.0, "b", 5.0)}, ["x.rate", "kind", "same"])
    assert figure is not None
    assert [list(line.y) for line in figure.data] == [[0.0, 0.0, 0.5], [1.0, 1.0, None], [0.5, 1.0, 0.5]]
    assert list(figure.layout.xaxis.ticktext) == ["x.<br>rate", "kind", "same"]
    assert {text.yanchor for text in figure.layout.annotations} == {"bottom"}, "beside a point, lines would go through it"
    assert parallel_coordinates({"one": (1.0,)}, ["x"]) is None


@pytest.mark.parametrize(("values", "rows"), [([0.0, 1.0, 1.0, 0.0], 2), ([float(value) for value in range(40)], 10)])
def test_rewards_are_shares_that_add_up(values: list[float], rows: int) -> None:
    steps = [Lengths(step=step, lengths=[1] * len(values), rewards=values, truncated=0, p50=1, p75=1, p90=1, max=1) for step in range(3)]
    figure = learning_signal.reward_distribution(steps)
    assert figure is not None
    (heat,) = figure.data
    assert len(heat.y) == rows
    assert [sum(column) for column in zip(*heat.z, strict=True)] == pytest.approx([100.0] * 3)
    assert learning_signal.reward_distribution([step.model_copy(update={"rewards": None}) for step in steps]) is None


def test_groups_outcomes_and_workers_are_drawn_where_they_were_told() -> None:
    shares = {"all_right_share": Series(steps=[0, 1], values=[0.25, 0.5]), "all_wrong_share": Series(steps=[0, 1], values=[0.25, 0.0])}
    figure = learning_signal.groups(shares)
    assert figure is not None
    assert {line.name: list(line.y) for line in figure.data} == {"all wrong": [25, 0], "some right": [50, 50], "all right": [25, 50]}
    assert (learning_signal.groups({}), learning_signal.lengths_by_outcome({}), learning_signal.throughput(Series(), {})) == (None,) * 3
    rates = learning_signal.throughput(Series(steps=[0], values=[9.0]), {"worker 0": Series(steps=[0], values=[5.0])})
    assert rates is not None
    assert [line.name for line in rates.data] == ["all, over the rollout", "worker 0"]
