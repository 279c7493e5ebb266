"""What can be planned of a decode step before the step in front of it is recorded."""

import random
from dataclasses import dataclass
from typing import Any

import pytest

from engine.config import GoodputConfig, SpeculationConfig, StrategyConfig
from engine.speculation.ngram.suffix_store import Draft
from engine.speculation.speculator import PATIENCE, Speculator, StepPlan
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.exploration import TRIAL
from engine.speculation.tuner.goodput import GoodputTuner

CHAIN = Strategy("eagle", 3, 1, 3)


@dataclass
class Running:
    id: int
    group: int = 0
    length: int = 20
    generated: int = 4
    drafted: int = 19


def speculator(tuner: str = "fixed", *, suffix: bool = False, drafter: str = "eagle") -> Speculator:
    strategies = (StrategyConfig.model_validate({"drafter": drafter, "depth": 3, "verify": 3}),)
    settings: dict[str, Any] = {"tuner": {"name": tuner}, "suffix": {"enabled": suffix}, "threshold": 8}
    return Speculator(SpeculationConfig.model_validate({"strategies": strategies} | settings), seed=0)


def begun(speculator: Speculator, requests: int) -> list[Running]:
    batch = [Running(number) for number in range(requests)]
    speculator.begin(100)
    for running in batch:
        speculator.admit(running.id, (1, 2, 3), [])
    return batch


@pytest.mark.parametrize("tuner", ["fixed", "beg"])
def test_a_batch_that_is_too_large_to_speculate_is_planned_by_anyone(tuner: str) -> None:
    speculates = speculator(tuner, suffix=True)
    batch = begun(speculates, 9)
    assert speculates.plan(batch, True).strategy == OFF
    ahead = speculates.plan_ahead(batch, True)
    assert ahead is not None
    assert ahead.strategy == OFF


def test_a_fixed_strategy_is_known_ahead_and_the_bandit_s_is_not() -> None:
    for tuner, expected in (("fixed", CHAIN), ("beg", None)):
        speculates = speculator(tuner)
        batch = begun(speculates, 2)
        speculates.plan(batch, True)
        ahead = speculates.plan_ahead(batch, True)
        assert (ahead.strategy if ahead else None) == expected


def test_goodput_decides_with_all_it_can_know() -> None:
    """While a decision holds; the next one waits for the last step of this one."""
    tuner = GoodputTuner([CHAIN], GoodputConfig(), random.Random(0), None)
    context = Context(2, drafters=frozenset({"none", "eagle"}))
    assert tuner.going_on(context) is None
    first = tuner.select(context)
    for _ in range(TRIAL - 1):
        assert tuner.going_on(context) == first
        assert tuner.select(context) == first
    assert tuner.going_on(context) is None
    assert tuner.going_on(Context(2, target_version=1, drafters=context.drafters)) is None


def test_texts_are_looked_up_when_their_newest_tokens_are_known() -> None:
    """Looks that find nothing are some steps apart, and these are planned ahead."""
    speculates, looks = speculator(suffix=True), list[int]()
    batch = begun(speculates, 1)
    steps = 0
    while len(looks) < 2:
        plan = speculates.plan_ahead(batch, True) if steps else None
        if plan is None:
            looks.append(steps)
            plan = speculates.plan(batch, True)
        assert (plan.strategy, plan.given) == (CHAIN, None)
        steps += 1
    assert looks == [0, 1 + PATIENCE]


def test_drafts_from_texts_alone_are_not_known_ahead() -> None:
    speculates = speculator(suffix=True, drafter="ngram")
    batch = begun(speculates, 1)
    speculates.plan(batch, False)
    speculates._pause_left = 0
    assert speculates.plan_ahead(batch, False) is None


def test_a_plan_of_those_that_still_run() -> None:
    draft = Draft((5,))
    plan = StepPlan(Context(3), CHAIN, CHAIN, [None, (5,), None], [None, draft, None])
    assert plan.of([1, 2]) == StepPlan(Context(3), CHAIN, CHAIN, [(5,), None], [draft, None])
    assert StepPlan(Context(3)).of([0]) == StepPlan(Context(3))
