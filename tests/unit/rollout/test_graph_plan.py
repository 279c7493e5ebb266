"""The set of graphs against brute force and hand-worked counts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bench.graphs import naive_captures
from engine.config import BegConfig, SpeculationConfig
from engine.rollout.native.graphs.plan import Capture, GraphPlan, batch_ranges, bucket, captures_of
from engine.rollout.native.graphs.step_memory import Widths, graph_memory
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.beg_bandit import BegTuner

NGRAM = Strategy("ngram", 5, 1, 5)
POWERS = [1, 2, 4, 8, 16, 32, 64]
LLAMA_8B = Widths(vocabulary=128256, hidden=4096, feed_forward=3 * 14336, itemsize=2)
TINY = Widths(vocabulary=99, hidden=160, feed_forward=3 * 432, itemsize=4)


def tlt(depth: int = 8, top_k: int = 4, **changes: object) -> SpeculationConfig:
    """The published code's four strategies and batch thresholds."""
    strategies = [{"depth": depth, "top_k": top_k, "verify": verify} for verify in (48, 32, 16, 8)]
    tuner = {"name": "beg", "thresholds": [1, 2, 5, 21]}
    return SpeculationConfig.model_validate({"threshold": 64, "strategies": strategies, "tuner": tuner} | changes)


def targets(plan: GraphPlan) -> set[tuple[int, int]]:
    return {(capture.batch, capture.tokens) for capture in plan.target}


def drafts(plan: GraphPlan) -> set[tuple[int, int, int]]:
    return {(capture.batch, capture.tokens, capture.levels) for capture in plan.draft}


def test_the_graphs_of_tlts_strategies_by_hand() -> None:
    plan = GraphPlan.of(batch_ranges(tlt(), 64), 64)
    plain = {(batch, 1) for batch in POWERS}
    speculative = {(1, 49), (2, 33), (4, 33), (8, 17), (16, 17), (32, 17), (32, 9), (64, 9)}
    assert targets(plan) == plain | speculative
    assert drafts(plan) == {(batch, 4, 8) for batch in POWERS}, "all four draft alike"
    assert plan.captures == 15 + 7


def test_all_levels_of_a_chain_are_one_graph() -> None:
    chains = [{"depth": n, "verify": n} for n in (6, 3, 2)]
    plan = GraphPlan.of_engine(SpeculationConfig.model_validate({"threshold": 4, "hysteresis": 0, "strategies": chains}), 4)
    assert targets(plan) == {(batch, tokens) for batch in (1, 2, 4) for tokens in (1, 3, 4, 7)}
    assert drafts(plan) == {(batch, 1, levels) for batch in (1, 2, 4) for levels in (6, 3, 2)}
    assert set(GraphPlan.of_engine(None, 5)) == {Capture("target", batch, 1) for batch in (1, 2, 4, 5)}


@pytest.mark.parametrize("strategy", [OFF, NGRAM, Strategy("eagle", 1, 3, 3)], ids=str)
def test_only_the_learned_drafter_has_graphs_of_drafts(strategy: Strategy) -> None:
    plan = GraphPlan.of({strategy: range(1, 9)}, 8)
    assert drafts(plan) == {(batch, 3, 1) for batch in (1, 2, 4, 8) if strategy.drafter == "eagle"}
    assert targets(plan) == {(batch, strategy.verify + 1) for batch in (1, 2, 4, 8)}


def test_five_requests_run_in_the_graph_of_eight() -> None:
    strategy = Strategy("eagle", 6, 1, 6)
    assert set(GraphPlan.of({strategy: range(5, 6)}, 64)) == {Capture("target", 8, 7), Capture("draft", 8, 1, 6)}


@given(st.integers(1, 300), st.data())
def test_the_bucket_is_the_next_power_of_two_or_the_largest_batch(max_batch: int, data: st.DataObject) -> None:
    batch = data.draw(st.integers(1, max_batch))
    sizes = [2**power for power in range(10) if 2**power < max_batch] + [max_batch]
    assert bucket(batch, max_batch) == min(size for size in sizes if size >= batch)


eagles = st.builds(Strategy, st.just("eagle"), st.integers(1, 10), st.integers(1, 8), st.integers(1, 48))
spans = st.builds(range, st.integers(1, 40), st.integers(1, 100))


@given(st.dictionaries(st.one_of(eagles, st.just(OFF), st.just(NGRAM)), spans), st.integers(1, 70))
def test_whatever_can_be_picked_has_a_graph(ranges: dict[Strategy, range], max_batch: int) -> None:
    plan = GraphPlan.of(ranges, max_batch)
    used = set()
    for strategy, batches in ranges.items():
        levels = strategy.verify if strategy.top_k == 1 else strategy.depth
        for size in {bucket(batch, max_batch) for batch in batches if batch <= max_batch}:
            used.add(Capture("target", size, strategy.verify + 1))
            if strategy.drafter == "eagle":
                used.add(Capture("draft", size, strategy.top_k, levels))
    assert used == set(plan) == plan.target | plan.draft, "no graph without a batch that needs it"
    assert plan.captures == len(used)


@pytest.mark.parametrize("max_batch", [1, 4, 6, 64, 100])
@pytest.mark.parametrize("thresholds", [[1, 2, 5, 21], None, [1, 2, 3, 90]])
def test_beg_picks_only_within_the_ranges(thresholds: list[int] | None, max_batch: int) -> None:
    """Every arm of every batch size, from the tuner itself: arms that were never measured come first."""
    config = tlt(threshold=40, hysteresis=0.5, tuner={"name": "beg", "thresholds": thresholds})
    assert isinstance(config.tuner, BegConfig)
    picked: dict[Strategy, set[int]] = {}
    for batch in range(1, min(max_batch, 60) + 1):
        tuner = BegTuner([Strategy.of(strategy) for strategy in config.strategies], config.tuner, random.Random(0))
        for _ in range(2):
            strategy = tuner.select(Context(batch))
            picked.setdefault(strategy, set()).add(batch)
            tuner.record(strategy, Context(batch), [0] * batch, 1.0)
    ranges = batch_ranges(config, max_batch)
    assert set(ranges.pop(OFF)) == set(range(1, max_batch + 1))
    picked.pop(OFF)
    assert {strategy: set(batches) for strategy, batches in ranges.items() if batches} == picked


def test_other_tuners_pick_up_to_the_hysteresis() -> None:
    chains = [{"depth": n, "verify": n} for n in (6, 3, 2)]
    goodput = batch_ranges(SpeculationConfig.model_validate({"threshold": 10, "hysteresis": 0.25, "strategies": chains}), 64)
    assert goodput == {OFF: range(1, 65)} | {Strategy("eagle", n, 1, n): range(1, 13) for n in (6, 3, 2)}
    fixed = {"threshold": 10, "hysteresis": 0, "strategies": chains, "tuner": {"name": "fixed"}}
    assert batch_ranges(SpeculationConfig.model_validate(fixed), 8) == {OFF: range(1, 9), Strategy("eagle", 6, 1, 6): range(1, 9)}


def test_shapes_of_target_and_drafter_add_up_instead_of_multiplying() -> None:
    """3 depths, 2 widths and 5 sizes to verify: 30 strategies, of 7 batch sizes each."""
    grid = [Strategy("eagle", depth, top_k, verify) for depth in (4, 6, 8) for top_k in (2, 4) for verify in (4, 8, 12, 16, 20)]
    plan = GraphPlan.of({strategy: range(1, 65) for strategy in grid}, 64)
    assert plan.captures == 7 * (5 + 3 * 2)
    assert len(naive_captures(grid, 64)) == 7 * 30 * 2
    assert set(naive_captures(grid, 64)) == set(plan)


def test_naive_counts_of_tlts_strategies() -> None:
    strategies = batch_ranges(tlt(), 64)
    assert len(naive_captures(strategies, 64)) == 7 * (4 * 2 + 1)


@pytest.mark.parametrize("widths", [LLAMA_8B, TINY], ids=["8B", "tiny"])
@pytest.mark.parametrize(("depth", "top_k"), [(8, 4), (10, 8)])
def test_four_strategies_take_at_most_1_4_times_the_memory_of_any_one(widths: Widths, depth: int, top_k: int) -> None:
    ranges = batch_ranges(tlt(depth, top_k), 64)
    pool = graph_memory(GraphPlan.of(ranges, 64), widths)
    for strategy in ranges.keys() - {OFF}:
        assert pool <= 1.4 * graph_memory(naive_captures([OFF, strategy], 64), widths)
    assert graph_memory(naive_captures(ranges, 64), widths) > 2.5 * pool


def test_a_range_beyond_the_largest_batch_needs_nothing() -> None:
    assert captures_of(OFF, range(65, 100), 64) == set()
    assert captures_of(OFF, range(60, 100), 64) == {Capture("target", 64, 1)}
