"""The charts of the run page's tabs Long tail, Timeline, Training and System."""

from typing import Any

import pytest

from backend.demo_data import telemetry
from dashboard.analysis.machine_metrics import by_kind
from dashboard.charts import idle_share, metric_curves, response_lengths, worker_timeline
from dashboard.charts.worker_timeline import MAX_POINTS, strategy_spans
from engine.events import AnyEvent
from longtail.schemas.telemetry import Decoding, Lengths, Series, WorkerSpan


@pytest.fixture(scope="module")
def events() -> list[AnyEvent]:
    return list(telemetry.events(telemetry.config(algorithm={"steps": 4})))


def of_kind(events: list[AnyEvent], kind: str) -> list[Any]:
    return [event for event in events if event.kind == kind]


def test_survival_is_the_share_of_longer_responses() -> None:
    figure = response_lengths.survival({"step 3": [10, 10, 20, 40], "step 0": [5]}, 64)
    chosen, first = figure.data
    assert (list(chosen.x), list(chosen.y)) == ([0, 10, 20, 40], [100, 50, 25, 0])
    assert (first.name, list(first.y)) == ("step 0", [100, 0])
    assert figure.layout.yaxis.type is None
    log = response_lengths.survival({"step 3": [10, 10, 20, 40]}, 64, log=True).layout.yaxis
    assert log.type == "log"
    assert 10 ** log.range[0] < 25, "the last response but one is in it"


def test_survival_of_many_responses_is_drawn_in_few_points_and_keeps_the_tail() -> None:
    many = list(range(1, 30_001))
    (curve,) = response_lengths.survival({"all": many}, 32_768).data
    assert len(curve.x) < 500
    assert list(curve.x[-50:]) == many[-50:]


def test_percentiles_have_the_upper_quartile() -> None:
    item = Lengths(step=0, lengths=[1], truncated=0, p50=50, p75=75, p90=90, max=100)
    assert {trace.name: trace.y[0] for trace in response_lengths.percentiles([item]).data} == {
        "longest": 100,
        "p90": 90,
        "p75": 75,
        "p50": 50,
    }


def test_the_bubble_is_waiting_by_all_worker_time_of_the_rollout() -> None:
    metrics = {
        "idle_seconds": Series(steps=[0, 1, 2], values=[4.0, 2.0, 1.0]),
        "trained_seconds": Series(steps=[0, 1, 2], values=[1.0, 2.0, 0.0]),
        "phase/rollout": Series(steps=[0, 1, 2], values=[5.0, 10.0, 0.0]),
    }
    trained, waiting = idle_share.idle_share(metrics, workers=2).data
    assert (list(trained.x), list(trained.y)) == ([0, 1], [10, 10])
    assert (waiting.name, list(waiting.y)) == ("idle", pytest.approx([30, 0]))  # type: ignore[comparison-overlap]
    assert not idle_share.idle_share({}, 2).data


def test_what_was_trained_stands_on_what_was_idle_where_one_of_them_has_a_gap() -> None:
    steps = list(range(600))
    metrics = {
        "idle_seconds": Series(steps=steps, values=[4.0] * 600),
        "trained_seconds": Series(steps=steps[300:], values=[1.0] * 300),
        "phase/rollout": Series(steps=steps, values=[5.0] * 600),
    }
    trained, waiting = idle_share.idle_share(metrics, workers=1).data
    assert list(trained.x) == list(waiting.x)
    assert (trained.y[0], waiting.y[0]) == (0, pytest.approx(80))
    assert (trained.y[-1], waiting.y[-1]) == (pytest.approx(20), pytest.approx(60))


def test_a_strip_tells_what_drafts_while_requests_run() -> None:
    points = [(0.0, 9, "off"), (1.0, 8, "eagle d4 k1 v4"), (1.5, 5, "eagle d4 k1 v4"), (2.0, 3, "mixed"), (3.0, 0, "off")]
    item = Decoding(step=7, worker=1, start=100.0, points=points)
    assert list(strategy_spans(item)) == [(1, 7, "eagle d4 k1 v4", 101.0, 102.0), (1, 7, "mixed", 102.0, 103.0)]
    spans = [
        WorkerSpan(step=7, worker=1, state="BUSY", start=100.0, end=103.0),
        WorkerSpan(step=7, worker=1, state="UPDATE", start=103.0, end=104.0),
    ]
    figure = worker_timeline.worker_timeline(spans, 100.0, [item])
    strips = {trace.name: (list(trace.base), list(trace.x), trace.width) for trace in figure.data if "drafts" in trace.name}
    assert strips == {"drafts: chain": ([1.0], [1.0], 0.22), "drafts: mixed": ([2.0], [1.0], 0.22)}
    (running,) = [trace for trace in figure.data if trace.yaxis == "y2"]
    assert (list(running.x), list(running.y)) == ([0.0, 1.0, 1.5, 2.0, 3.0], [9, 8, 5, 3, 0])
    assert running.customdata[1] == "chain 4"
    assert figure.layout.yaxis2.domain[1] < figure.layout.yaxis.domain[0]


def test_symbols_tell_what_was_done_about_the_tail() -> None:
    marks = [(0.0, "longest_first", 1830), (0.0, "carried", 2), (3.0, "stopped", 5)]
    item = Decoding.model_validate({"step": 7, "worker": 1, "start": 100.0, "points": [(0.0, 9, "off"), (3.0, 0, "off")], "marks": marks})
    spans = [WorkerSpan(step=7, worker=1, state="BUSY", start=100.0, end=103.0)]
    figure = worker_timeline.worker_timeline(spans, 100.0, [item, Decoding(step=7, worker=0, start=100.0, points=item.points)])
    found = {
        trace.name: (trace.x[0], trace.y[0], trace.customdata[0][1])
        for trace in figure.data
        if trace.type == "scatter" and trace.mode == "markers"
    }
    both = "longest first, 1,830 tokens predicted; 2 responses carried over"
    assert found == {
        "longest first": (0.0, "worker 1", both),
        "carried over": (0.0, "worker 1", both),
        "stopped early": (3.0, "worker 1", "5 responses stopped early"),
    }


def test_each_worker_has_a_curve_of_running_requests_over_all_steps(events: list[AnyEvent]) -> None:
    spans = [WorkerSpan.model_validate(event) for event in of_kind(events, "worker_state")]
    decoding = [Decoding.model_validate(event) for event in of_kind(events, "decoding")]
    metric_curves = [trace for trace in worker_timeline.worker_timeline(spans, spans[0].start, decoding).data if trace.yaxis == "y2"]
    assert [curve.name for curve in metric_curves] == ["worker 0", "worker 1"]
    assert sum(len(curve.x) for curve in metric_curves) == sum(len(item.points) for item in decoding)
    assert [max(curve.y) for curve in metric_curves] == [32, 32]
    assert all(list(curve.x) == sorted(curve.x) for curve in metric_curves)


def test_a_long_timeline_is_thinned_and_each_step_still_ends_with_nothing_running() -> None:
    points = [(float(after), 64 - after, "off") for after in range(65)]
    decoding = [Decoding(step=step, worker=0, start=100.0 * step, points=points) for step in range(200)]
    spans = [WorkerSpan(step=step, worker=0, state="BUSY", start=100.0 * step, end=100.0 * step + 64) for step in range(200)]
    (running,) = [trace for trace in worker_timeline.worker_timeline(spans, 0.0, decoding).data if trace.yaxis == "y2"]
    assert len(running.x) < MAX_POINTS * 1.2
    assert list(running.y).count(0) == 200


def test_metrics_of_machines_are_known_by_their_names() -> None:
    line = Series(steps=[0], values=[1.0])
    assert by_kind({"system/node-1/cpu_percent": line}) == {"cpu_percent": {"node-1": line}}
    assert by_kind({"system/node-1.lab/gpu3_memory_gb": line}) == {"gpu_memory_gb": {"node-1.lab GPU 3": line}}
    assert by_kind({"system/a/gpuMIG-1_percent": line}) == {"gpu_percent": {"a GPU MIG-1": line}}
    assert by_kind({"loss": line, "system/node-1/fans": line}) == {}
    found = by_kind({"loss": line, "system/b/memory_gb": line, "system/a/memory_gb": line})
    assert {kind: list(parts) for kind, parts in found.items()} == {"memory_gb": ["a", "b"]}


def test_a_small_chart_says_on_its_axis_what_it_measures() -> None:
    figure = metric_curves.small(Series(steps=[0, 1], values=[0.5, 0.4]), "entropy (nats a token)")
    assert figure.layout.yaxis.title.text == "entropy (nats a token)"
    assert [list(trace.y) for trace in figure.data] == [[0.5, 0.4]]
