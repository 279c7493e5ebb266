"""Against the papers' formulas, in plain Python."""

import statistics
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.policy.algorithms.advantages import ADVANTAGES, EPSILON

Groups = list[list[float]]
REWARDS: Groups = [[0.0, 1.0, 1.0, 0.25], [3.0, -1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0], [2.0, 2.0, 2.0, 2.0]]
OF_A_GROUP = ["group_normalised", "group_centred", "leave_one_out"]


def grpo(groups: Groups) -> Groups:
    return [[(r - statistics.mean(group)) / (statistics.stdev(group) + EPSILON) for r in group] for group in groups]


def dr_grpo(groups: Groups) -> Groups:
    return [[r - statistics.mean(group) for r in group] for group in groups]


def rloo(groups: Groups) -> Groups:
    return [[r - statistics.mean(group[:i] + group[i + 1 :]) for i, r in enumerate(group)] for group in groups]


def reinforce_pp(groups: Groups) -> Groups:
    every = [r for group in groups for r in group]
    return [[(r - statistics.mean(every)) / (statistics.stdev(every) + EPSILON) for r in group] for group in groups]


def reinforce_pp_baseline(groups: Groups) -> Groups:
    centred = dr_grpo(groups)
    spread = statistics.stdev(r for group in centred for r in group)
    return [[r / (spread + EPSILON) for r in group] for group in centred]


FORMULAS: dict[str, Callable[[Groups], Groups]] = {
    "group_normalised": grpo,
    "group_centred": dr_grpo,
    "leave_one_out": rloo,
    "batch_normalised": reinforce_pp,
    "group_centred_batch_normalised": reinforce_pp_baseline,
}


@pytest.mark.parametrize("name", ADVANTAGES)
def test_matches_the_paper(name: str) -> None:
    torch.testing.assert_close(ADVANTAGES[name](torch.tensor(REWARDS)), torch.tensor(FORMULAS[name](REWARDS)), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", [*OF_A_GROUP, "group_centred_batch_normalised"])
@given(reward=st.floats(-1e6, 1e6, width=32), size=st.integers(2, 64))
def test_a_group_of_equal_rewards_teaches_nothing(name: str, reward: float, size: int) -> None:
    assert not ADVANTAGES[name](torch.full((1, size), reward)).any()


@pytest.mark.parametrize("name", ADVANTAGES)
@given(rewards=st.lists(st.floats(-10, 10, width=32), min_size=6, max_size=6))
def test_better_rewards_have_higher_advantages(name: str, rewards: list[float]) -> None:
    grouped = torch.tensor(rewards).view(2, 3)
    for group, found in zip(grouped, ADVANTAGES[name](grouped), strict=True):
        assert (found[group.argsort()].diff() >= 0).all()


@pytest.mark.parametrize("name", OF_A_GROUP)
@given(rewards=st.lists(st.floats(-10, 10, width=32), min_size=6, max_size=6))
def test_groups_sum_to_zero(name: str, rewards: list[float]) -> None:
    assert ADVANTAGES[name](torch.tensor(rewards).view(2, 3)).sum(dim=1).abs().max() < 1e-4
