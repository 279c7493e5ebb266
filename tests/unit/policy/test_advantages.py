import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.policy.advantages import ADVANTAGES, EPSILON, group_normalised


def test_matches_the_formula_group_by_group() -> None:
    rewards = [[0.0, 1.0, 1.0, 0.25], [3.0, -1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]]
    expected = [[(r - statistics.mean(group)) / (statistics.stdev(group) + EPSILON) for r in group] for group in rewards]
    torch.testing.assert_close(group_normalised(torch.tensor(rewards)), torch.tensor(expected), atol=1e-6, rtol=0)


@given(st.floats(-1e6, 1e6, width=32), st.integers(2, 64))
def test_a_group_of_equal_rewards_teaches_nothing(reward: float, size: int) -> None:
    assert not group_normalised(torch.full((1, size), reward)).any()


@given(st.lists(st.floats(-10, 10, width=32), min_size=6, max_size=6))
def test_better_rewards_have_higher_advantages_and_groups_sum_to_zero(rewards: list[float]) -> None:
    advantages = group_normalised(torch.tensor(rewards).view(2, 3))
    assert advantages.sum(dim=1).abs().max() < 1e-4
    for group, found in zip(torch.tensor(rewards).view(2, 3), advantages, strict=True):
        assert (found[group.argsort()].diff() >= 0).all()


def test_the_registry_knows_every_algorithm_of_the_configuration() -> None:
    assert ADVANTAGES["grpo"] is group_normalised
    with pytest.raises(KeyError):
        ADVANTAGES["ppo"]
