"""What phases and decode steps take, from the steps of a recorded run."""

from itertools import product

import numpy as np
import pytest

from engine.config import RunConfig
from engine.events import ArmStatistics
from engine.planner.answers import recorded_passes
from engine.planner.answers.recorded_costs import by_length
from engine.planner.answers.recorded_passes import corrected
from engine.planner.answers.recorded_run import RecordedStep
from engine.planner.simulation.phase_costs import teaching
from engine.speculation.strategy import Context, Strategy
from engine.speculation.tuner.cost_table import CostTable, Grid

PROMPT = 20.0
CONFIG = RunConfig()
RNG = np.random.default_rng(0)
LENGTHS = [tuple(np.clip(RNG.lognormal(4, 1, 16), 1, 1024).astype(int).tolist()) for _ in range(12)]


def steps(token: float, pair: float) -> list[RecordedStep]:
    found = []
    for index, lengths in enumerate(LENGTHS):
        whole = np.array(lengths) + PROMPT
        found.append(RecordedStep(index, 1.0, lengths, {"update": token * whole.sum() + pair * (whole**2).sum()}, {}))
    return found


@pytest.mark.parametrize(("token", "pair"), [(1e-4, 3e-7), (1e-4, 0.0), (0.0, 3e-7)])
def test_both_are_told_apart(token: float, pair: float) -> None:
    assert by_length(steps(token, pair), "update", CONFIG, PROMPT) == pytest.approx((token, pair), rel=1e-6, abs=1e-12)


def test_a_step_that_was_held_up_does_not_count() -> None:
    recorded = steps(1e-4, 3e-7)
    recorded[3].phases["update"] += 0.3
    found = by_length(recorded, "update", CONFIG, PROMPT)
    others = [step for step in recorded if step is not recorded[3]]
    taken = [sum(found[power - 1] * (length + PROMPT) ** power for length in step.lengths for power in (1, 2)) for step in others]
    assert taken == pytest.approx([step.phases["update"] for step in others], rel=0.35)


def test_neither_is_below_nothing() -> None:
    recorded = [RecordedStep(index, 1.0, (n,), {"update": 1 / n}, {}) for index, n in enumerate((10, 100, 1000))]
    assert min(by_length(recorded, "update", CONFIG, PROMPT)) >= 0


def test_two_steps_tell_of_tokens_alone_and_a_phase_that_is_not_there_takes_nothing() -> None:
    assert by_length(steps(1e-4, 3e-7)[:2], "update", CONFIG, PROMPT)[1] == 0
    assert by_length(steps(1e-4, 3e-7), "inference", CONFIG, PROMPT) == (0, 0)


def test_what_is_cut_at_the_limit_teaches_nothing_and_costs_nothing() -> None:
    cut = RunConfig.model_validate({"rollout": {"max_new_tokens": 128}})
    whole = RunConfig.model_validate({"rollout": {"max_new_tokens": 128}, "algorithm": {"mask_truncated": False}})
    lengths = np.array([5, 128, 127, 128])
    assert teaching(cut, lengths).tolist() == [5, 127]
    assert teaching(whole, lengths).tolist() == lengths.tolist()
    recorded = [RecordedStep(0, 1.0, (128, 128), {"update": 0.0}, {}), RecordedStep(1, 1.0, (80, 128), {"update": 0.5}, {})]
    assert by_length(recorded, "update", cut, PROMPT) == (0.5 / (80 + PROMPT), 0)


def arms(costs: CostTable, target: float, draft: float, once: float) -> tuple[ArmStatistics, ...]:
    """Of 40 pulls each, that took what ``costs`` say by these factors and a constant more."""
    found = []
    for strategy, batch in product(("off", "eagle d4 k1 v4", "eagle d8 k1 v8", "ngram d8 k1 v8"), (1, 4, 16)):
        at, named = Context(batch, KNOWN), Strategy.named(strategy)
        passes = costs.target(batch, named.verify + 1, KNOWN)
        seconds = passes * target + (costs.seconds(named, at) - passes) * draft + once
        found.append(ArmStatistics(bucket=batch, strategy=strategy, pulls=40, requests=40 * batch, accepted=0, seconds=40 * seconds))
    return tuple(found)


GRID = [[[1e-3 * batch**0.5 * width**0.3] for width in (1, 3, 9)] for batch in (1, 4, 16)]
COSTS = CostTable(Grid((1, 4, 16), (1, 3, 9), (64,), GRID), Grid((1, 4, 16), (1,), (64,), [[[3e-4 * batch]] for batch in (1, 4, 16)]))
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
    few = ArmStatistics(bucket=1, strategy="off", pulls=7, requests=7, accepted=0, seconds=1.0)
    for used in ((), (few,)):
        assert corrected(COSTS, [RecordedStep(0, 1.0, (200,), {}, {}, arms=used)], 0.0) is COSTS
