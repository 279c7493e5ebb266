"""Rewards to advantages."""

from dataclasses import replace

import pytest
import torch

from engine.config import RunConfig
from engine.policy.algorithms.credit_assignment import advantages, informative, looked_up, overlong_penalty, training_rows
from engine.policy.training.training_row import Inferred
from engine.rollout.interface import Completion, Request


def completions(lengths: list[int], finish: str = "stop") -> list[Completion]:
    return [
        Completion(Request(index, index // 2, (1, 2)), (5,) * length, (-1.0,) * length, finish, 0, 0)  # type: ignore[arg-type]
        for index, length in enumerate(lengths)
    ]


def config(**algorithm: object) -> RunConfig:
    shape = {"prompts_per_step": 2, "group_size": 2, "advantage": "group_centred"}
    return RunConfig.model_validate({"algorithm": shape | algorithm, "rollout": {"max_new_tokens": 100}})


def test_groups_are_compared_within_themselves() -> None:
    rows = training_rows(config(), completions([3, 4, 5, 6]))
    assert advantages(config(kl_coefficient=0), rows, [1.0, 0.0, 5.0, 5.0], None) == [0.5, -0.5, 0.0, 0.0]


def test_rows_are_prompt_and_response() -> None:
    (row, *_) = training_rows(config(), completions([3, 4]))
    assert (row.tokens, row.prompt_length, row.response_length, row.masked) == ((1, 2, 5, 5, 5), 2, 3, False)


@pytest.mark.parametrize(("mask", "finish", "masked"), [(True, "length", True), (True, "stop", False), (False, "length", False)])
def test_cut_responses_are_masked_on_demand(mask: bool, finish: str, masked: bool) -> None:
    (row,) = training_rows(config(mask_truncated=mask), completions([3], finish))
    assert row.masked == masked


def test_the_overlong_penalty_falls_to_minus_one_over_the_last_share() -> None:
    """DAPO's: 0 up to 80 of 100 tokens, a straight line, -1 at the limit."""
    lengths = torch.tensor([10, 80, 85, 90, 100])
    assert overlong_penalty(lengths, 100, 0.2).tolist() == pytest.approx([0, 0, -0.25, -0.5, -1])
    assert not overlong_penalty(lengths, 100, 0.0).any()


def test_the_overlong_penalty_counts_in_the_reward() -> None:
    rows = training_rows(config(), completions([10, 90, 10, 10]))
    assert advantages(config(kl_coefficient=0, overlong_share=0.2), rows, [1.0, 1.0, 0.0, 0.0], None) == [0.25, -0.25, 0.0, 0.0]


def test_the_kl_of_a_whole_response_counts_in_its_reward() -> None:
    rows = training_rows(config(), completions([2, 2, 1, 1]))
    drift = [0.5, 0.0, 1.0, -1.0]
    inferred = [
        Inferred(torch.full((row.response_length,), -1.0), torch.full((row.response_length,), -1.0 - d))
        for row, d in zip(rows, drift, strict=True)
    ]
    found = advantages(config(kl="k1", kl_in="reward", kl_coefficient=0.1), rows, [0.0] * 4, inferred)
    assert found == pytest.approx([-0.05, 0.05, -0.1, 0.1])


@pytest.mark.parametrize(
    ("algorithm", "indices"),
    [
        ({}, [0, 1]),
        ({"kl_in": "reward"}, [0, 1, 2]),
        ({"kl_coefficient": 0, "updates_per_step": 2}, [0]),
        ({"kl_coefficient": 0}, []),
    ],
)
def test_only_what_is_read_is_looked_up(algorithm: dict[str, object], indices: list[int]) -> None:
    """Of a row that teaches, one whose advantage is zero, and a masked one."""
    rows = training_rows(config(), completions([2, 2, 2]))
    rows = [replace(rows[0], advantage=1.0), rows[1], replace(rows[2], advantage=1.0, masked=True)]
    assert looked_up(config(**algorithm).algorithm, rows) == indices


@pytest.mark.parametrize(("rewards", "says"), [([0.0, 0.0], False), ([1.0, 1.0], False), ([0.0, 1.0], True)])
def test_only_groups_of_different_rewards_are_informative(rewards: list[float], says: bool) -> None:
    assert informative(rewards) == says
