"""What phases and decode steps take, from the steps of a recorded run."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from engine.config import RunConfig, parse
from engine.events import ArmStatistics
from engine.planner.answers import recorded_passes
from engine.planner.answers.least_squares import not_negative
from engine.planner.answers.recorded_costs import by_length, recorded_costs
from engine.planner.answers.recorded_passes import corrected
from engine.planner.answers.recorded_run import RecordedStep
from engine.planner.calibration import usual
from engine.planner.hardware import machines
from engine.planner.model_shape import PRESETS
from engine.planner.simulation.phase_costs import by_operations, inferred, updated_with
from engine.speculation.strategy import Context, Strategy
from engine.speculation.tuner.cost_table import CostTable, Grid

RNG = np.random.default_rng(0)
LENGTHS = [np.clip(RNG.lognormal(4, 1, 16), 1, 1024) for _ in range(12)]


def seconds(token: float, pair: float) -> list[float]:
    return [float(token * lengths.sum() + pair * (lengths**2).sum()) for lengths in LENGTHS]


@pytest.mark.parametrize(("token", "pair"), [(1e-4, 3e-7), (1e-4, 0.0), (0.0, 3e-7)])
def test_both_are_told_apart(token: float, pair: float) -> None:
    assert by_length(LENGTHS, seconds(token, pair)) == pytest.approx((token, pair), rel=1e-6, abs=1e-12)


def test_a_step_that_was_held_up_does_not_count() -> None:
    taken = seconds(1e-4, 3e-7)
    taken[3] += 0.3
    token, pair = by_length(LENGTHS, taken) or (0, 0)
    found = [token * lengths.sum() + pair * (lengths**2).sum() for lengths in LENGTHS]
    assert found[:3] + found[4:] == pytest.approx(taken[:3] + taken[4:], rel=0.35)


def test_neither_is_below_nothing() -> None:
    assert min(by_length([np.array([n]) for n in (10.0, 100.0, 1000.0)], [0.1, 0.01, 0.001]) or (-1,)) >= 0


def test_two_steps_tell_of_tokens_alone_and_a_phase_that_is_not_there_takes_nothing() -> None:
    assert (by_length(LENGTHS[:2], seconds(1e-4, 3e-7)[:2]) or (0, 1))[1] == 0
    assert by_length(LENGTHS, [0.0] * len(LENGTHS)) is None


def test_what_is_cut_at_the_limit_is_not_learned_from() -> None:
    lengths, limit = np.array([5, 128, 127, 128]), {"rollout": {"max_new_tokens": 128}}
    cut, whole, rewarded = (
        RunConfig.model_validate(limit | {"algorithm": algorithm}) for algorithm in ({}, {"mask_truncated": False}, {"name": "rloo"})
    )
    assert [updated_with(each, lengths).tolist() for each in (cut, whole, rewarded)] == [[5, 127], lengths.tolist(), [5, 127]]
    assert [inferred(each, lengths).tolist() for each in (cut, whole, rewarded)] == [[5, 127], lengths.tolist(), lengths.tolist()]


def test_a_step_of_which_all_is_cut_tells_nothing() -> None:
    cut = RunConfig.model_validate({"rollout": {"max_new_tokens": 128}})
    steps = [RecordedStep(0, 1.0, (128, 128), {"update": 0.0}, {}), RecordedStep(1, 1.0, (80, 128), {"update": 0.5}, {})]
    config, computed = parse({}), by_operations(cut, PRESETS["7B"], machines("h100:1"), usual().efficiency)
    found = recorded_costs(computed, steps, cut, 20.0, 1.0)
    assert (found.update, found.update_square) == (0.5 / 100, 0)
    assert recorded_costs(computed, steps, config, 20.0, 1.0).update < found.update, "all of it was learned from"


def arms(costs: CostTable, target: float, draft: float, once: float) -> tuple[ArmStatistics, ...]:
    """Of 40 pulls each, that took what ``costs`` say by these factors and a constant more."""
    found = []
    for strategy, batch in product(("off", "eagle d4 k1 v4", "eagle d8 k1 v8", "ngram d8 k1 v8"), (1, 4, 16)):
        at, named = Context(batch, KNOWN), Strategy.named(strategy)
        passes = costs.target(batch, named.verify + 1, KNOWN)
        seconds = passes * target + (costs.seconds(named, at) - passes) * draft + once
        found.append(ArmStatistics(bucket=batch, strategy=strategy, pulls=40, requests=40 * batch, accepted=0, seconds=40 * seconds))
    return tuple(found)


BATCHES, WIDTHS, FAR = (1, 4, 16), (1, 3, 9), (64, 640)
GRID = [[[1e-3 * batch**0.5 * width**0.3 * length**0.5 for length in FAR] for width in WIDTHS] for batch in BATCHES]
COSTS = CostTable(Grid(BATCHES, WIDTHS, FAR, GRID), Grid(BATCHES, (1,), FAR, [[[3e-4 * batch] * 2] for batch in BATCHES]))
KNOWN = 100


def test_decode_steps_take_what_they_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_passes, "DOUBT", 1e-9)
    step = RecordedStep(0, 1.0, (200, 200), {}, {}, arms=arms(COSTS, 0.9, 1.5, 2e-3))
    found = corrected(COSTS, [step], 0.0)
    for strategy, batch in product(map(Strategy.named, ("off", "eagle d6 k1 v6")), (1, 2, 16)):
        passes = COSTS.target(batch, strategy.verify + 1, KNOWN)
        drafts = COSTS.seconds(strategy, Context(batch, KNOWN)) - passes
        assert found.seconds(strategy, Context(batch, KNOWN)) == pytest.approx(0.9 * passes + 1.5 * drafts + 2e-3, rel=1e-3)


def test_one_strategy_alone_tells_of_one_factor() -> None:
    only = [arm for arm in arms(COSTS, 1.4, 1.4, 0.0) if (arm.strategy, arm.bucket) == ("eagle d4 k1 v4", 4)]
    found = corrected(COSTS, [RecordedStep(0, 1.0, (200, 200), {}, {}, arms=tuple(only))], 0.0)
    for strategy in map(Strategy.named, ("off", "eagle d4 k1 v4")):
        at = Context(4, KNOWN)
        assert found.seconds(strategy, at) == pytest.approx(1.4 * COSTS.seconds(strategy, at), rel=0.02)


def test_without_drafts_the_table_stays() -> None:
    plain = ArmStatistics(bucket=1, strategy="off", pulls=100, requests=100, accepted=0, seconds=1.0)
    rare = ArmStatistics(bucket=1, strategy="ngram d8 k1 v8", pulls=7, requests=7, accepted=0, seconds=1.0)
    for used in ((), (plain,), (plain, rare)):
        assert corrected(COSTS, [RecordedStep(0, 1.0, (200,), {}, {}, arms=used)], 0.0) is COSTS


@given(st.integers(0, 2**32 - 1))
def test_no_coefficient_is_negative_and_none_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, wanted = rng.normal(size=(6, 3)), rng.normal(size=6)
    expected, residual = nnls(matrix, wanted)
    found = not_negative(matrix, wanted)
    assert found == pytest.approx(expected, abs=1e-9)
    assert np.linalg.norm(matrix @ found - wanted) == pytest.approx(residual)
