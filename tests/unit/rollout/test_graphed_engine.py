"""An engine that runs its passes as graphs generates what the eager one does; on a device whose graphs run functions again, and on GPUs."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from native_cases import (
    CPU,
    NGRAMS,
    TREES,
    RandomTuner,
    make_engine,
    make_guessable,
    make_requests,
    make_target,
    random_drafter,
    strategies,
    with_random_tuner,
)
from test_graph_pool import Rerun
from torch import Tensor

from engine.bench.graphs import measure, naive_captures
from engine.config import SpeculationConfig
from engine.drafter.kind import DrafterKind
from engine.rollout.interface import Completion, Sampling
from engine.rollout.native import cost_measurement
from engine.rollout.native.engine import NativeEngine
from engine.rollout.native.graphs.plan import Capture, GraphPlan, Part, batch_ranges, bucket
from engine.rollout.native.graphs.pool import Function, Recorder, Recording
from engine.rollout.native.placement import Placement
from engine.rollout.native.runner import Runner
from engine.speculation.strategy import OFF, Strategy

ENDS = frozenset({5, 6})
CHAINS = tuple(Strategy("eagle", n, 1, n) for n in (1, 3, 4, 7))
SLOTS = 11


def speculation(suffix: bool = True) -> SpeculationConfig:
    """Under a tuner that can pick every strategy, so that every one has graphs."""
    shapes = [(shape.depth, shape.top_k, shape.verify) for shape in (*CHAINS, *TREES)]
    return SpeculationConfig.model_validate(strategies(*shapes, suffix=suffix).model_dump() | {"tuner": {"name": "goodput"}})


def make_pair(
    slots: int = SLOTS, *, device: torch.device = CPU, recorder: Recorder | None = None, kind: DrafterKind = "eagle"
) -> tuple[NativeEngine, NativeEngine, RandomTuner]:
    """A plain and eager engine on the CPU; one with graphs, whose strategy changes at random at every step."""
    target = make_target(tie_word_embeddings=False)
    guessable = make_guessable(target)
    drafter = guessable if kind == "eagle" else random_drafter(target, kind=kind)
    plain = make_engine(target, slots=slots, end_tokens=ENDS)
    graphed = make_engine(target, drafter, speculation(), slots=slots, end_tokens=ENDS, device=device, recorder=recorder, drafter_kind=kind)
    tuner = RandomTuner(0, more=(*CHAINS, *TREES, *NGRAMS))
    return plain, graphed, with_random_tuner(graphed, tuner)


def outcome(completions: Sequence[Completion]) -> list[tuple[tuple[int, ...], str]]:
    return [(completion.tokens, completion.finish) for completion in completions]


class Counting(Rerun):
    """Counts all recordings, also of graphs that are gone."""

    recorded = 0

    def record(self, function: Function, inputs: dict[str, Tensor]) -> Recording:
        self.recorded += 1
        return super().record(function, inputs)


def recorded(engine: NativeEngine) -> int:
    return len(engine._runner.passes.pool._recordings)


def watch_eager(engine: NativeEngine) -> set[str]:
    """Gets the names of the passes that run without a graph from now on."""
    found: set[str] = set()
    passes = engine._runner.passes
    run, draft = passes._run, passes.draft_whole

    def watched(part: Part | None, function: Any, placed: Placement, **inputs: Tensor) -> dict[str, Tensor]:
        if passes._key(part, placed) is None:
            found.add(f"{part} of {placed.requests} x {placed.tokens}" if part else function.__name__)
        return run(part, function, placed, **inputs)

    def watched_draft(capture: Capture, *rest: Any) -> dict[str, Tensor]:
        if not passes.has_graph(capture):
            found.add(f"draft of {capture.batch} x {capture.tokens}")
        return draft(capture, *rest)

    passes._run = watched  # type: ignore[method-assign]
    passes.draft_whole = watched_draft  # type: ignore[method-assign,assignment]
    return found


def compare(plain: NativeEngine, graphed: NativeEngine, count: int, sampling: Sampling, longest: int = 20) -> None:
    requests = make_requests(count, 48, group=3, longest=longest, seed=count)
    expected, actual = (engine.generate(requests, sampling) for engine in (plain, graphed))
    assert outcome(actual) == outcome(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(torch.tensor(ours.logprobs), torch.tensor(theirs.logprobs), atol=1e-4, rtol=0)


@pytest.mark.parametrize("sampling", [Sampling(temperature=0, max_new_tokens=20), Sampling(0.8, 0.9, max_new_tokens=30, seed=3)])
def test_tokens_are_those_of_the_eager_engine(sampling: Sampling) -> None:
    """Batches of 1 to 11 requests are padded to 1, 2, 4, 8 or 11."""
    plain, graphed, tuner = make_pair(recorder=Rerun())
    for count in (46, 3, 7, 5):
        compare(plain, graphed, count, sampling)
    used = {strategy for strategy, _ in tuner.steps}
    assert used >= set(tuner.arms) - set(NGRAMS)
    assert used & set(NGRAMS)  # a step in which no n-gram draft pays is plain decoding
    assert {len(accepted) for _, accepted in tuner.steps} >= {1, 3, 5, 7, 11}
    assert max(max(accepted) for _, accepted in tuner.steps) >= 5


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_only_prompts_and_what_the_drafter_missed_run_eagerly(kind: DrafterKind) -> None:
    plain, graphed, _ = make_pair(recorder=Rerun(), kind=kind)
    eager = watch_eager(graphed)
    compare(plain, graphed, 46, Sampling(max_new_tokens=20))
    assert eager == {"_extend", "_fill"}
    passes = graphed._runner.passes
    assert passes.plan
    assert 20 < recorded(graphed) <= passes.plan.captures
    assert passes.pool.bytes > 0


def test_no_graph_is_recorded_again_for_more_or_longer_requests() -> None:
    """Until the memory is given back."""
    recorder = Counting()
    plain, graphed, _ = make_pair(recorder=recorder)
    for count, limit, longest in ((3, 10, 5), (7, 10, 64), (13, 90, 40), (5, 8, 20)):
        compare(plain, graphed, count, Sampling(max_new_tokens=limit, seed=count), longest)
    cleared = recorder.cleared
    assert recorder.recorded == recorded(graphed)
    assert graphed._runner.cache.slots == SLOTS
    graphed.release()
    assert recorded(graphed) == graphed._runner.passes.pool.bytes == 0
    graphed.resume()
    assert recorder.cleared > cleared
    compare(plain, graphed, 6, Sampling(max_new_tokens=20, seed=9))
    graphed.release()
    compare(plain, graphed, 4, Sampling(max_new_tokens=20, seed=10))


def test_plain_decoding_has_graphs_too() -> None:
    target = make_target()
    requests, sampling = make_requests(13, 48, group=2), Sampling(max_new_tokens=20)
    graphed = make_engine(target, slots=6, end_tokens=ENDS, recorder=Rerun())
    eager = watch_eager(graphed)
    assert outcome(graphed.generate(requests, sampling)) == outcome(
        make_engine(target, slots=6, end_tokens=ENDS).generate(requests, sampling)
    )
    assert recorded(graphed) == 4
    assert eager == {"_extend"}


def test_what_the_plan_does_not_have_runs_eagerly() -> None:
    target = make_target(tie_word_embeddings=False)
    config = strategies((3, 1, 3), (3, 3, 8))
    graphed = make_engine(target, make_guessable(target), config, slots=4, end_tokens=ENDS, recorder=Rerun())
    assert set(batch_ranges(config, 4)) == {OFF, Strategy("eagle", 3, 1, 3)}, "a fixed tuner picks the first"
    tuner = with_random_tuner(graphed, RandomTuner(0, more=(Strategy("eagle", 3, 3, 8),)))
    eager = watch_eager(graphed)
    compare(make_engine(target, slots=4, end_tokens=ENDS), graphed, 9, Sampling(max_new_tokens=20))
    sizes = {bucket(len(accepted), 4) for strategy, accepted in tuner.steps if strategy != OFF}
    assert eager == {"_extend", "_fill"} | {f"{part} of {size} x {n}" for part, n in (("draft", 3), ("target", 9)) for size in sizes}


def test_costs_are_measured_on_graphs_that_only_the_measurement_has() -> None:
    """Batches of 1 and 4: five widths to verify, two widths of levels. Lengths have no graphs of their own."""
    plan, recorder = GraphPlan.of_engine(speculation(), 2), Counting()
    target = make_target(hidden=16, layers=1)
    runner = Runner(target.config, torch.empty(0), drafting=True, plan=plan, recorder=recorder)
    runner.target.load(target.state_dict())
    assert runner.drafter
    runner.drafter.load(random_drafter(target))
    cost_measurement.measure(runner, [1, 4], 48)
    assert recorder.recorded == 2 * (5 + 2)
    assert not recorder.outputs, "their memory is free again"
    assert runner.passes.plan == plan


def test_a_cpu_pads_and_records_nothing() -> None:
    plain, eager, _ = make_pair()
    compare(plain, eager, 5, Sampling(max_new_tokens=20))
    assert eager._runner.cache.slots == 5
    passes = eager._runner.passes
    assert (passes.plan, recorded(eager), passes.pool.bytes) == (None, 0, 0)


def test_the_benchmark_records_every_capture_it_is_given() -> None:
    recorder, config = Rerun(), make_target().config
    captures = naive_captures((OFF, *TREES[:2], CHAINS[2]), 3)
    assert len(captures) == 3 * (1 + 2 + 2 + 2)
    used = measure(config, torch.empty(0), captures, recorder)
    assert len(recorder.outputs) == len(captures)
    targets, drafts = ([capture for capture in captures if capture.part == part] for part in ("target", "draft"))
    token_and_position = 2 * 8
    rows = sum(capture.rows for capture in targets)
    seed_and_codes, request_and_newest = 8 + 4 * 48, 8 + 8
    noise = sum(seed_and_codes + capture.batch * (request_and_newest + 8 * (capture.levels + 1)) for capture in drafts)
    assert used == rows * token_and_position + noise + recorder.bytes


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_tokens_on_a_gpu_are_those_of_the_cpu(temperature: float) -> None:
    plain, graphed, _ = make_pair(device=torch.device("cuda"))
    eager = watch_eager(graphed)
    for count, limit in ((7, 20), (46, 40)):
        compare(plain, graphed, count, Sampling(temperature, max_new_tokens=limit, seed=2))
    graphed.release()
    compare(plain, graphed, 13, Sampling(temperature, max_new_tokens=20, seed=4))
    assert recorded(graphed) > 10
    assert eager == {"_extend", "_fill"}
