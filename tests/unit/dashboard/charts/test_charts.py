from itertools import groupby
from typing import Any

import pytest

from backend.demo_data import telemetry
from dashboard.analysis.acceptance import accept_lengths
from dashboard.analysis.drafter_training import accuracies
from dashboard.analysis.series import band, finite, smoothed, thinned
from dashboard.charts import (
    acceptance_by_position,
    drafter_accuracy,
    metric_curves,
    phase_times,
    response_lengths,
    strategy_heatmap,
    tuner_choices,
    worker_timeline,
)
from dashboard.charts.strategy_names import strategy_fills, strategy_label, strategy_order
from dashboard.charts.theme import BLUE, GREY, PHASE_COLORS, label
from dashboard.views.run.tabs.speculation import regret_help
from engine.config import SpeculationConfig
from engine.events import AnyEvent
from engine.speculation.strategy import Strategy
from longtail.schemas.telemetry import DrafterSession, Lengths, Series, SpeculationStep, WorkerSpan


@pytest.fixture(scope="module")
def events() -> list[AnyEvent]:
    return list(telemetry.events(telemetry.config(algorithm={"steps": 6})))


def of_kind(events: list[AnyEvent], kind: str) -> list[Any]:
    return [event for event in events if event.kind == kind]


def names(figure: Any) -> list[str]:
    return [trace.name for trace in figure.data]


def test_series_drop_what_is_not_finite() -> None:
    assert finite(Series(steps=[0, 1, 2], values=[1.0, None, 3.0])) == [(0.0, 1.0), (2.0, 3.0)]


def test_thinning_keeps_the_mean_and_the_limit() -> None:
    points = [(float(i), float(i % 7)) for i in range(1000)]
    few = thinned(points, 100)
    assert len(few) == 100
    assert sum(value for _, value in few) / 100 == pytest.approx(sum(value for _, value in points) / 1000)
    assert thinned(points[:5], 100) == points[:5]


def test_smoothing_neither_lags_nor_shortens() -> None:
    points = [(float(i), float(i)) for i in range(9)]
    assert smoothed(points, 3)[4] == (4.0, 4.0)
    assert smoothed(points, 3)[0] == (0.0, 0.5)
    assert smoothed(points, 1) == points


def test_curves_draw_each_run_with_its_name_as_text() -> None:
    figure = metric_curves.rewards({"plain": Series(steps=[0, 1], values=[0.1, 0.2]), "<b>x</b>": Series(steps=[0, 1], values=[0.3, 0.4])})
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    assert [line.name for line in lines] == ["plain", "&lt;b&gt;x&lt;/b&gt;"]
    assert lines[0].line.color != lines[1].line.color
    assert figure.layout.yaxis.title.text == "mean reward"


def test_a_single_step_is_drawn_as_a_dot() -> None:
    assert metric_curves.rewards({"run": Series(steps=[0], values=[2.5])}).data[-1].mode == "markers"


def test_no_data_is_no_error() -> None:
    assert not metric_curves.rewards({}).data
    assert not phase_times.phases_by_step({}).data
    assert not response_lengths.percentiles([]).data[0].x
    assert not worker_timeline.worker_timeline([], 0.0).data
    assert not acceptance_by_position.acceptance_by_position([]).data
    assert not tuner_choices.choices_by_step([]).data
    assert not strategy_heatmap.strategy_heatmap({}, "pulls").data[0].x
    assert not tuner_choices.regret_by_step([]).data[0].x
    assert not drafter_accuracy.drafter_accuracy([], "top-1").data[0].x
    assert not drafter_accuracy.accuracy_drops_by_session([], "top-1").data[0].x


def test_phases_stack_up_to_the_step(events: list[AnyEvent]) -> None:
    steps = of_kind(events, "step")
    metrics = {
        f"phase/{name}": Series(steps=[step.step for step in steps], values=[step.phases[name] for step in steps])
        for name in steps[0].phases
    }
    figure = phase_times.phases_by_step(metrics)
    assert figure.layout.barmode == "stack"
    assert names(figure) == [name for name in PHASE_COLORS if name != "evaluation"]
    assert sum(trace.y[2] for trace in figure.data) == pytest.approx(steps[2].seconds)


def test_bars_of_phases_that_not_every_step_has_stand_on_the_others() -> None:
    steps = list(range(600))
    metrics = {
        "phase/rollout": Series(steps=steps, values=[1.0] * 600),
        "phase/update": Series(steps=steps[:300], values=[0.5] * 300),
        "phase/evaluation": Series(steps=steps[9::10], values=[8.0] * 60),
    }
    rollout, update, evaluation = phase_times.phases_by_step(metrics).data
    assert list(rollout.x) == list(update.x) == list(evaluation.x)
    assert len(rollout.x) == phase_times.MAX_BARS
    assert (update.y[0], update.y[-1]) == (0.5, 0.0)
    assert sum(evaluation.y) * 4 == pytest.approx(60 * 8.0), "of four steps that share a bar the mean"


def test_histogram_counts_every_response_and_marks_the_tail() -> None:
    figure = response_lengths.histogram([10] * 50 + [100] * 13 + [1024], 1024)
    assert sum(figure.data[0].y) == 64
    assert [note.text.strip() for note in figure.layout.annotations] == ["p50 10", "p90 100", "longest 1024"]
    assert figure.data[0].customdata[0].startswith("1 to ")


def test_histogram_marks_agree_with_the_api_s_percentiles() -> None:
    item = Lengths(step=0, lengths=list(range(1, 65)), truncated=0, p50=32, p75=48, p90=58, max=64)
    texts = [note.text.strip() for note in response_lengths.histogram(item.lengths, 64).layout.annotations]
    assert texts == [f"p50 {item.p50}", f"p90 {item.p90}", f"longest {item.max}"]


def test_distributions_are_shares() -> None:
    figure = response_lengths.distributions({"a": [10, 20, 900], "b": [5] * 8}, 1024)
    assert all(sum(trace.y[:-1]) == pytest.approx(100) for trace in figure.data)


def test_timeline_has_a_lane_for_each_worker_and_a_colour_for_each_state(events: list[AnyEvent]) -> None:
    spans = [WorkerSpan.model_validate(event) for event in of_kind(events, "worker_state")]
    figure = worker_timeline.worker_timeline(spans, origin=spans[0].start)
    assert names(figure) == ["BUSY", "IDLE", "TRAINING", "INFERENCE", "UPDATE"]
    assert {lane for trace in figure.data for lane in trace.y} == {"worker 0", "worker 1"}
    assert sum(len(trace.x) for trace in figure.data) == len(spans)
    assert min(min(trace.base) for trace in figure.data) == 0
    busy = [span.end - span.start for span in spans if span.state == "BUSY"]
    assert sum(figure.data[0].x) == pytest.approx(sum(busy))


def test_of_the_steps_on_the_timeline_only_the_first_says_that_it_is_one() -> None:
    """On a phone the word at each of three steps would run into the next."""
    spans = [WorkerSpan(step=step, worker=0, state="BUSY", start=step, end=step + 1.0) for step in (27, 28, 29)]
    assert [note.text for note in worker_timeline.worker_timeline(spans, 27.0).layout.annotations] == ["step 27", "28", "29"]


@pytest.mark.parametrize(("seconds", "unit"), [(20, "seconds"), (1200, "minutes"), (10_000, "hours"), (400_000, "days")])
def test_timeline_counts_in_a_readable_unit(seconds: float, unit: str) -> None:
    figure = worker_timeline.worker_timeline([WorkerSpan(step=0, worker=0, state="BUSY", start=100.0, end=100.0 + seconds)], origin=100.0)
    assert figure.layout.xaxis.title.text == f"{unit} since the start"
    assert figure.data[0].x[0] <= 200


def test_acceptance_is_accepted_over_drafted() -> None:
    early = [SpeculationStep(step=i, arms=[], drafted_by_position=[100, 50], accepted_by_position=[50, 10]) for i in range(5)]
    late = [SpeculationStep(step=5 + i, arms=[], drafted_by_position=[100, 0, 10], accepted_by_position=[80, 0, 4]) for i in range(5)]
    first, last = acceptance_by_position.acceptance_by_position([*early, *late]).data
    assert list(first.y) == [50, 20]
    assert list(last.x) == [1, 3]
    assert list(last.y) == [80, 40]


def test_acceptance_in_a_long_run_says_of_which_steps_it_is() -> None:
    """Of which all but every eighth step is left out, but not of the latest."""
    spaced = [SpeculationStep(step=8 * i, arms=[], drafted_by_position=[100], accepted_by_position=[50]) for i in range(1000)]
    recent = [SpeculationStep(step=7950 + i, arms=[], drafted_by_position=[100], accepted_by_position=[80]) for i in range(50)]
    first, last = acceptance_by_position.acceptance_by_position(spaced, recent, 8).data
    assert (first.name, list(first.y)) == ("learned drafter, every 8th step from 0 to 32", [50])
    assert (last.name, list(last.y)) == ("learned drafter, last 5 steps", [80])


def test_regret_says_over_how_many_steps_it_was_measured() -> None:
    assert "over the 20 steps before" in regret_help(1)
    assert "over 20 of the 160 steps before" in regret_help(8)


def test_acceptance_and_accept_length_are_told_by_drafter() -> None:
    step = SpeculationStep(
        step=4,
        arms=[],
        drafted_by_position=[100, 50],
        accepted_by_position=[50, 20],
        ngram_drafted_by_position=[40, 10, 0],
        ngram_accepted_by_position=[10, 5, 0],
    )
    learned, ngrams = acceptance_by_position.acceptance_by_position([step]).data
    assert (learned.name, list(learned.y)) == ("learned drafter, last step", [100 * 40 / 60, 100 * 15 / 40])
    assert (ngrams.name, list(ngrams.y)) == ("n-grams, last step", [25, 50])
    found = accept_lengths([step, step.model_copy(update={"step": 5, "drafted_by_position": [], "accepted_by_position": []})])
    assert found["learned drafter"].values == [pytest.approx(1 + 55 / 60), None]
    assert found["n-grams"].values[0] == pytest.approx(1 + 15 / 40)
    assert list(accept_lengths([SpeculationStep(step=0, arms=[], drafted_by_position=[2], accepted_by_position=[1])])) == [
        "learned drafter"
    ]


def test_what_all_drafts_bring_is_seen_beside_the_drafter_that_makes_them_all() -> None:
    same = Series(steps=[0, 1], values=[2.0, 2.5])
    beneath, above = metric_curves.accept_lengths({"learned drafter": same, metric_curves.ALL: same}).data
    assert (beneath.name, above.name) == (metric_curves.ALL, "learned drafter")
    assert beneath.line.width >= 3 * above.line.width
    assert beneath.line.color != above.line.color


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("off", "plain"),
        ("eagle d6 k3 v12", "tree 6x3, verify 12"),
        ("eagle d4 k1 v4", "chain 4"),
        ("eagle d4 k1 v3", "chain 4, verify 3"),
        ("ngram d8 k1 v8", "n-gram 8"),
        ("chain-7", "chain-7"),
        ("<b>eagle d4 k1 v4", "&lt;b&gt;eagle d4 k1 v4"),
    ],
)
def test_strategies_have_readable_names(name: str, text: str) -> None:
    assert strategy_label(name) == text


def test_every_usual_strategy_has_a_label_and_a_look_of_its_own() -> None:
    used = ["off", *(str(Strategy.of(strategy)) for strategy in SpeculationConfig().strategies), "from an older version"]
    fills = strategy_fills(used)
    assert len(set(fills.values())) == len(used) == len(set(map(strategy_label, used)))
    assert fills["off"] == (GREY, "")
    assert {fills[name][0] for name in used if " k4 " in name or " k3 " in name} == {BLUE}, "trees are of one hue"


def test_strategies_stand_in_the_order_of_what_they_verify() -> None:
    names = ["ngram d8 k1 v8", "eagle d10 k2 v10", "old", "eagle d4 k1 v4", "eagle d2 k2 v4", "off", "eagle d8 k4 v24"]
    ordered = ["off", "eagle d8 k4 v24", "eagle d10 k2 v10", "eagle d2 k2 v4", "eagle d4 k1 v4", "ngram d8 k1 v8", "old"]
    assert sorted(names, key=strategy_order) == ordered


def test_accuracy_tells_published_versions_from_the_others(events: list[AnyEvent]) -> None:
    sessions = [DrafterSession.model_validate(event) for event in of_kind(events, "drafter")]
    before, published, refused = drafter_accuracy.drafter_accuracy(accuracies(sessions, "top-3"), "top-3").data
    assert list(before.y) == [100 * session.top3_before for session in sessions if session.top3_before is not None]
    counts = {key: len(list(group)) for key, group in groupby(sorted(session.published for session in sessions))}
    assert (len(published.x), len(refused.x)) == (counts.get(True, 0), counts.get(False, 0))


def test_labels_are_text_and_short() -> None:
    assert label('<a href="x">') == '&lt;a href="x"&gt;'
    assert len(label("n" * 200)) == 40


def test_an_envelope_is_a_band_around_its_curve() -> None:
    line = Series(steps=[0, 4, 8], values=[1.0, 2.0, None], low=[0.0, 1.0, None], high=[3.0, 4.0, None], width=4)
    assert band(line) == [(0.0, 0.0, 3.0), (4.0, 1.0, 4.0)]
    around, curve = metric_curves.values({"loss": line}).data
    assert (list(around.x), list(around.y), around.fill) == ([0, 4, 4, 0], [0, 1, 4, 3], "toself")
    assert list(curve.y) == [1.0, 2.0]
    assert band(Series(steps=[0], values=[1.0])) == []


def test_a_long_band_is_thinned_to_its_outermost_values() -> None:
    line = Series(steps=list(range(10)), values=[0.0] * 10, low=[float(-n) for n in range(10)], high=[float(n) for n in range(10)], width=2)
    assert band(line, 5) == [(0.5, -1.0, 1.0), (2.5, -3.0, 3.0), (4.5, -5.0, 5.0), (6.5, -7.0, 7.0), (8.5, -9.0, 9.0)]
