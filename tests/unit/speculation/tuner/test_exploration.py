"""What trials may cost."""

import json
import random

import numpy as np
import pytest

from engine.speculation.strategy import OFF, Strategy
from engine.speculation.tuner.exploration import ALLOWANCE, ASKED_SHARE, SHARE, TRIAL, Exploration

NGRAM, CHAIN, TREE = Strategy("ngram", 8, 1, 8), Strategy("eagle", 1, 1, 1), Strategy("eagle", 2, 2, 4)


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
    assert 0.5 * SHARE * steps < lost <= ALLOWANCE + SHARE * steps


@pytest.mark.parametrize("late", [0.0, 1.0, 4.0, 25.0, 40.0])
def test_a_trial_costs_what_its_drafter_catches_up_with(late: float) -> None:
    """Steps are saved up for that, if it is not too much. Who must catch up with the best drafter pays nothing for it."""
    score, uncertain, behind = np.log([1.0, 0.67]), np.diag([0.0, 0.25]), np.array([0.0, late])
    exploration, tried, steps = Exploration((OFF, CHAIN), random.Random(0)), 0, 30_000
    for _ in range(0, steps, TRIAL):
        tried += exploration.choose([0, 1], score, uncertain, np.zeros(2), behind)
        exploration.note(TRIAL)
    lost = tried * (late + TRIAL * (1 - 0.67))
    assert lost <= ALLOWANCE + SHARE * steps
    assert (lost > 0.5 * SHARE * steps) == (late < 30)
    both = Exploration((CHAIN, TREE), random.Random(0))
    assert {both.choose([0, 1], score, uncertain, np.zeros(2), np.full(2, late)) for _ in range(50)} == {0, 1}


def test_what_was_saved_up_survives_a_checkpoint() -> None:
    """Else a drafter that is far behind would never be tried where checkpoints are more frequent than trials."""
    exploration, uncertain = Exploration((OFF, CHAIN), random.Random(0)), np.diag([0.0, 0.25])
    exploration.choose([0, 1], np.log([1.0, 0.67]), uncertain, np.zeros(2), np.array([0.0, 20.0]))
    exploration.note(500)
    state = json.loads(json.dumps(exploration.state()))
    assert state["credit"] > 2 * ALLOWANCE
    resumed = Exploration((OFF, CHAIN), random.Random(1))
    resumed.load_state(state)
    resumed.note(0)
    assert resumed.state() == state


@pytest.mark.parametrize("late", [0.0, 4.0, 25.0])
def test_who_need_not_catch_up_is_no_cheaper_to_try(late: float) -> None:
    """N-grams leave the learned drafter as far behind as it was."""
    exploration, tried, steps = Exploration((NGRAM, CHAIN), random.Random(0)), 0, 30_000
    for _ in range(0, steps, TRIAL):
        tried += exploration.choose([0, 1], np.log([0.5, 1.0]), np.zeros((2, 2)), np.zeros(2), np.array([0.0, late])) == 0
        exploration.note(TRIAL)
    assert 0.8 * ASKED_SHARE < (tried - 1) * TRIAL * 0.5 / steps <= ASKED_SHARE
