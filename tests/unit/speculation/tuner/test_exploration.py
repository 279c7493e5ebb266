"""What trials may cost."""

import json
import math
import random
from math import ceil

import numpy as np
import pytest

from engine.speculation.strategy import OFF, Strategy
from engine.speculation.tuner.exploration import ASKED_SHARE, DEAREST, FIRST, SHARE, TRIAL, Exploration

NGRAM = Strategy("ngram", 8, 1, 8)


@pytest.mark.parametrize(("value", "dear"), [(0.9, 1), (0.5, 1), (0.1, 1), (0.1, 9), (0.9, 0.3)])
def test_trials_of_ngrams_go_on_and_lose_their_share_of_the_steps_at_most(value: float, dear: float) -> None:
    """``value``: tokens a second with n-grams, as a share of those without; ``dear``: likewise the seconds of a step. Both are certain."""
    exploration, decisions, tried = Exploration((OFF, NGRAM), random.Random(0)), 5000, 0
    for _ in range(decisions):
        tried += exploration.choose([0, 1], np.log([1.0, value]), np.zeros((2, 2)), np.log([1.0, dear]), np.zeros(2))
        exploration.note(TRIAL)
    lost = (tried - 1) * TRIAL * dear * (1 - value)
    assert 0.8 * ASKED_SHARE < lost / (decisions * TRIAL) <= ASKED_SHARE


def test_ngrams_that_are_the_best_leave_the_others_their_trials() -> None:
    uncertain = np.diag([0.25, 0.25])
    exploration = Exploration((OFF, NGRAM), random.Random(0))
    chosen = []
    for _ in range(200):
        chosen.append(exploration.choose([0, 1], np.array([0.0, 0.1]), uncertain, np.zeros(2), np.zeros(2)))
        exploration.note(20)
    assert 20 < chosen.count(0) < 100


def test_what_many_are_uncertain_of_together_makes_none_of_them_likelier_to_be_better() -> None:
    """Eight drafts a little worse than none by the same guess, whose error is one and the same: they are tried as often as one would be."""
    score, covariance = np.array([0.0] + 8 * [-0.05]), np.full((9, 9), 0.01)
    covariance[0], covariance[:, 0] = 0.0, 0.0
    exploration = Exploration((OFF, *(Strategy("eagle", depth, 1, depth) for depth in range(1, 9))), random.Random(0))
    chosen = []
    for _ in range(1000):
        chosen.append(exploration.choose(range(9), score, covariance, np.zeros(9), np.zeros(9)))
        exploration.note(20)
    assert 250 < sum(arm != 0 for arm in chosen) < 370  # a normal error of 0.1 exceeds 0.05 in 31 % of draws


def test_trials_of_arms_that_seem_worse_lose_a_share_of_the_steps_at_most() -> None:
    """An arm that nothing is known of, and seems a third slower."""
    eagle, steps, lost = Strategy("eagle", 4, 1, 4), 3000, 0.0
    exploration = Exploration((OFF, eagle), random.Random(0))
    score, uncertain = np.log([1.0, 0.67]), np.diag([0.0, 0.25])
    for _ in range(0, steps, TRIAL):
        lost += TRIAL * (1 - 0.67) * exploration.choose([0, 1], score, uncertain, np.zeros(2), np.zeros(2))
        exploration.note(TRIAL)
    assert 0.5 * SHARE * steps < lost <= FIRST + SHARE * steps


def test_a_new_drafter_that_cannot_be_asked_yet_keeps_nothing_else_from_its_trials() -> None:
    chosen: list[list[int]] = []
    for renewed in (False, True):
        exploration = Exploration((OFF, NGRAM, Strategy("eagle", 3, 1, 3)), random.Random(0))
        if renewed:
            exploration.renew()
        uncertain = np.diag([0.25, 0.25, 0.25])
        chosen.append([exploration.choose([0, 1], np.array([0.0, 0.1, 9.0]), uncertain, np.zeros(3), np.zeros(3)) for _ in range(50)])
    assert set(chosen[0]) == {0, 1}
    assert chosen[1] == chosen[0]


CHAINS, TREE = [Strategy("eagle", depth, 1, depth) for depth in (2, 4)], Strategy("eagle", 3, 2, 5)


def trials(exploration: Exploration, score: list[float], steps: int, renewed: int) -> list[int]:
    """The arms that were tried in so many steps, with a new drafter each ``renewed``; nothing is learnt of them."""
    found = []
    for step in range(0, steps, TRIAL):
        if step % renewed == 0:
            exploration.renew()
            state = exploration.state()
            exploration = Exploration((OFF, *CHAINS, TREE), random.Random(0))
            exploration.load_state(json.loads(json.dumps(state)))
            assert exploration.state() == state
        found.append(exploration.choose(range(4), np.array(score), np.zeros((4, 4)), np.zeros(4), np.zeros(4)))
        exploration.note(TRIAL)
    return found


def test_a_new_drafter_is_tried_once_in_each_shape() -> None:
    tried = trials(Exploration((OFF, *CHAINS, TREE), random.Random(0)), [0.0, -2.0, -2.1, -2.2], 1500, renewed=1500)
    assert [arm for arm in tried if arm] == [1, 3], "of chains the one that seems best, which tells of the other, too"


def test_steps_for_a_trial_are_saved_up_over_drafters_and_checkpoints() -> None:
    """Each trial is paid by more steps than any of the drafters lasts."""
    tried = trials(Exploration((OFF, *CHAINS, TREE), random.Random(0)), [0.0, -2.0, -2.1, -2.2], 9000, renewed=60)
    lost = sum(TRIAL * (1 - math.exp(-2.0 if arm == 1 else -2.2)) for arm in tried if arm)
    assert ASKED_SHARE * 9000 < lost <= SHARE * 9000


def test_what_a_trial_of_a_new_drafter_cannot_win_back_is_not_tried_and_pays_for_no_others() -> None:
    exploration = Exploration((OFF, TREE), random.Random(0))
    exploration.renew()
    exploration.note(100_000)
    assert exploration.choose([0, 1], np.array([0.0, -2.0]), np.zeros((2, 2)), np.log([1.0, 100.0]), np.zeros(2)) == 0
    assert exploration.state()["untried"]["saved"] == DEAREST


def test_a_trial_costs_what_its_drafter_catches_up_with_unless_the_best_does_so_too() -> None:
    """Behind long prompts that is more than the trial itself."""
    chain, tree = Strategy("eagle", 1, 1, 1), Strategy("eagle", 2, 2, 4)
    tried, lost, decisions = 0, 4.0 + TRIAL * 0.5, 10_000
    exploration = Exploration((OFF, chain), random.Random(0))
    for _ in range(decisions):
        exploration.renew()
        tried += exploration.choose([0, 1], np.log([1.0, 0.5]), np.zeros((2, 2)), np.zeros(2), np.array([0.0, 4.0]))
        exploration.note(TRIAL)
    assert tried * lost == pytest.approx(SHARE * decisions * TRIAL, rel=0.05)
    both = Exploration((chain, tree), random.Random(0))
    both.renew()
    both.note(ceil(TRIAL * 0.5 / SHARE))
    score, late = np.log([1.0, 0.5]), np.full(2, 4.0)
    assert [both.choose([0, 1], score, np.zeros((2, 2)), np.zeros(2), late) for _ in range(2)] == [0, 1]
