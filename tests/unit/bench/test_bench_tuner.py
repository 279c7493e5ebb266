"""Simulated rollouts against sums worked out by hand, and the tuner in them against one who knows all."""

import random
from dataclasses import replace

import numpy as np
import pytest

from engine.bench.tuner_simulation import ablation
from engine.bench.tuner_simulation.cases import BAD, CASES, GOOD, Case, even
from engine.bench.tuner_simulation.drafts import Skill, Text
from engine.bench.tuner_simulation.machines import CPU, GPU
from engine.bench.tuner_simulation.rollout import best_arm
from engine.bench.tuner_simulation.score import ARMS, Oracle, Tuned, rollouts, score
from engine.config import GoodputConfig
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.fixed import FixedTuner
from engine.speculation.tuner.goodput import GoodputTuner

CHAIN, TREE, NGRAM = Strategy("eagle", 4, 1, 4), Strategy("eagle", 6, 3, 12), Strategy("ngram", 8, 1, 8)
BY_NAME = {case.name: case for case in CASES}


def test_plain_decoding_takes_a_step_for_each_token() -> None:
    case = Case("", 4, 6, even(10), (GOOD,))
    (seconds,) = rollouts(case, Tuned(FixedTuner(OFF)), 0)
    steps = [(4, 64 + written) for written in range(10)] + [(2, 64 + written) for written in range(10)]
    assert seconds == pytest.approx(sum(CPU.seconds(OFF, Context(batch, length)) for batch, length in steps))


@pytest.mark.parametrize("strategy", [CHAIN, TREE, NGRAM])
def test_as_much_is_accepted_as_the_skill_says(strategy: Strategy) -> None:
    skill = Skill(0.7, found=0.4, repeated=0.8)
    text = Text(2000, 1, np.random.default_rng(0))
    running = np.arange(2000)
    accepted = text.accepted(strategy, skill, running, 0 * running)
    assert accepted.mean() == pytest.approx(skill.expected(strategy), rel=0.08)
    assert accepted.max() <= strategy.depth


def test_each_kind_of_draft_pays_somewhere_and_none_elsewhere() -> None:
    """By what the oracle chooses: a tree at one request on a GPU, n-grams where much repeats, plain decoding with a bad drafter."""
    for case, drafter, top_k in (("trees pay", "eagle", 4), ("n-grams pay", "ngram", 1), ("nothing pays", "none", 0)):
        found = best_arm((OFF, *ARMS), BY_NAME[case].costs)(Context(BY_NAME[case].slots, 100), BY_NAME[case].skills[0])
        assert (found.drafter, found.top_k) == (drafter, top_k)


def test_who_knows_all_is_not_beaten_by_one_strategy() -> None:
    case = replace(BY_NAME["long tail of 32"], name="two rollouts", skills=(GOOD,) * 2)
    assert score(case, lambda case, _: Oracle(best_arm((OFF, *ARMS), case.costs)), 1) == pytest.approx(1.0, abs=0.01)
    assert all(score(case, lambda *_, arm=arm: Tuned(FixedTuner(arm)), 1) < 1.01 for arm in (OFF, *ARMS))


@pytest.mark.parametrize(
    "name",
    ["batch 4", "long tail of 32", "trees pay", "drafter turns good at once, batch 32", "16 tokens each, batch 64", "wrong cost table"],
)
def test_the_tuner_is_near_to_who_knows_all(name: str) -> None:
    assert score(BY_NAME[name], lambda case, seed: Tuned(ablation.goodput(case, seed)), 1) >= 0.94


@pytest.mark.parametrize("part", ablation.PARTS)
def test_a_part_that_is_switched_off_changes_what_is_chosen(part: str) -> None:
    """In one of two cases."""
    skills = (Skill(0.1, 0.7, 0.9), GOOD, BAD, Skill(0.2)) * 2
    cases = Case("", 2, 4, even(200), skills, GPU, told=CPU), Case("", 16, 16, even(120), skills)
    whole, less = ([list(rollouts(case, Tuned(build(case, 1)), 0)) for case in cases] for build in (ablation.goodput, ablation.PARTS[part]))
    assert whole != less


def test_the_simulation_is_the_same_each_time() -> None:
    case = BY_NAME["uneven machine"]
    tuners = [GoodputTuner(ARMS, GoodputConfig(), random.Random(2), case.costs) for _ in range(2)]
    first, second = (list(rollouts(case, Tuned(tuner), 0)) for tuner in tuners)
    assert first == second
