import random
from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from engine.policy.training.balance import balance
from engine.policy.training.microbatches import MICROBATCH_OVERHEAD, fill, group_by_length, microbatches
from engine.policy.training.training_row import TrainingRow

LENGTHS = st.lists(st.integers(1, 1000), max_size=60)


@given(LENGTHS, st.integers(1, 9))
def test_balance_is_a_partition_of_nearly_equal_loads(lengths: list[int], parts: int) -> None:
    members = balance(lengths, parts)
    assert len(members) == parts
    assert sorted(index for part in members for index in part) == list(range(len(lengths)))
    loads = [sum(lengths[index] for index in part) for part in members]
    assert max(loads) - min(loads) <= max(lengths, default=0)
    assert members == balance(list(lengths), parts)


@given(LENGTHS, st.integers(1, 3000))
def test_groups_are_a_partition_within_the_bound(lengths: list[int], bound: int) -> None:
    groups = group_by_length(lengths, bound)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[index] for index in group) <= bound


def cost(groups: list[list[int]], lengths: list[int]) -> int:
    return sum(len(group) * max(lengths[index] for index in group) + MICROBATCH_OVERHEAD for group in groups)


@settings(max_examples=examples(50))
@given(st.lists(st.integers(1, 400), min_size=1, max_size=9), st.integers(100, 1500))
def test_no_grouping_of_the_sorted_rows_is_cheaper(lengths: list[int], bound: int) -> None:
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    costs = []
    for count in range(len(lengths)):
        for cuts in combinations(range(1, len(lengths)), count):
            edges = [0, *cuts, len(lengths)]
            groups = [order[begin:end] for begin, end in pairwise(edges)]
            if all(len(group) == 1 or len(group) * lengths[group[-1]] <= bound for group in groups):
                costs.append(cost(groups, lengths))
    assert cost(group_by_length(lengths, bound), lengths) == min(costs)


def test_little_is_padding_on_long_tailed_lengths() -> None:
    draw = random.Random(0)
    lengths = [min(1000, 10 + int(draw.lognormvariate(4, 1.1))) for _ in range(64)]
    groups = group_by_length(lengths, 2048)
    padded = sum(len(group) * max(lengths[index] for index in group) for group in groups)
    assert padded < 1.15 * sum(lengths)
    assert len(groups) < 20


def test_predictors_point_at_the_positions_before_the_response_tokens() -> None:
    rows = [TrainingRow((7, 8, 9), 1, 0.0, (0.0, 0.0)), TrainingRow((1, 2, 3, 4, 5), 3, 0.0, (0.0, 0.0))]
    (batch,) = microbatches(rows, 100, torch.device("cpu"))
    assert batch.rows == (1, 0)
    assert batch.tokens.tolist() == [[1, 2, 3, 4, 5], [7, 8, 9, 0, 0]]
    assert batch.tokens.flatten()[batch.predictors].tolist() == [3, 4, 7, 8]
    assert batch.labels.tolist() == [4, 5, 8, 9]
    assert [part.tolist() for part in batch.split(torch.arange(4))] == [[0, 1], [2, 3]]
    assert batch.join([torch.tensor([2, 3]), torch.tensor([0, 1])]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("prompt", "logprobs"), [(0, (0.0, 0.0, 0.0)), (1, (0.0,)), (2, (0.0, 0.0))])
def test_a_row_that_does_not_add_up_is_refused(prompt: int, logprobs: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"prompt token|response tokens"):
        TrainingRow((1, 2, 3), prompt, 0.0, logprobs)


@given(LENGTHS, st.integers(1, 3000))
def test_packed_groups_are_a_partition_within_the_bound_and_nearly_full(lengths: list[int], bound: int) -> None:
    groups = fill(lengths, bound)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    loads = [sum(lengths[index] for index in group) for group in groups]
    assert all(load <= bound or len(group) == 1 for load, group in zip(loads, groups, strict=True))
    assert all(one + other > bound for one, other in combinations(loads, 2)), "two of them would fit into one"


def test_packed_rows_stand_end_to_end() -> None:
    rows = [TrainingRow((7, 8, 9), 1, 0.0, (0.0, 0.0)), TrainingRow((1, 2, 3, 4, 5), 3, 0.0, (0.0, 0.0))]
    (batch,) = microbatches(rows, 8, torch.device("cpu"), packed=True)
    assert (batch.rows, batch.segments) == ((1, 0), (5, 3))
    assert [place.tolist() for place in batch.places] == [[0, 1, 2, 3, 4], [5, 6, 7]]
    assert batch.tokens.tolist() == [[1, 2, 3, 4, 5, 7, 8, 9]]
    assert batch.positions is not None
    assert batch.positions.tolist() == [[0, 1, 2, 3, 4, 0, 1, 2]]
    assert batch.tokens[0, batch.predictors].tolist() == [3, 4, 7, 8]
    assert batch.labels.tolist() == [4, 5, 8, 9]


def row(prompt: tuple[int, ...], *response: int) -> TrainingRow:
    return TrainingRow((*prompt, *response), len(prompt), 0.0, (0.0,) * len(response))


def test_packed_responses_to_the_same_prompt_share_it() -> None:
    rows = [row((1, 2), 3), row((1, 2, 3), 4, 5), row((1, 2), 6, 7)]
    (batch,) = microbatches(rows, 100, torch.device("cpu"), packed=True)
    assert (batch.rows, batch.responses, batch.segments) == ((2, 0, 1), (2, 1, 2), ((2, 2, 1), 5))
    assert batch.tokens.tolist() == [[1, 2, 6, 7, 3, 1, 2, 3, 4, 5]]
    assert batch.positions is not None
    assert batch.positions.tolist() == [[0, 1, 2, 3, 2, 0, 1, 2, 3, 4]]
    for index, place in zip(batch.rows, batch.places, strict=True):
        assert batch.tokens[0, place].tolist() == list(rows[index].tokens)
    assert batch.tokens[0, batch.predictors].tolist() == [2, 6, 2, 3, 4]
    assert batch.labels.tolist() == [6, 7, 3, 4, 5]


def test_rows_are_packed_where_that_is_less_to_compute() -> None:
    """Equal rows have no padding to save, and each part of a packed one costs something of its own; unequal ones, and those that share a
    long prompt, have."""

    def siblings(prompt: int, *lengths: int) -> list[TrainingRow]:
        return [row(tuple(range(first, first + prompt)), *range(length)) for first, length in enumerate(lengths)]

    strangers, shared = siblings(4, *[20] * 8), [row(tuple(range(100)), *range(20))] * 4
    unequal = siblings(4, *range(20, 400, 40))
    for rows, packed in ((strangers, False), (shared, True), (unequal, True)):
        found = microbatches(rows, 4096, torch.device("cpu"), "auto")
        assert {batch.segments is not None for batch in found} == {packed}
        assert sorted(index for batch in found for index in batch.rows) == list(range(len(rows)))


def test_siblings_that_do_not_fit_into_one_microbatch_take_their_prompt_along() -> None:
    rows = [row((1, 2, 3), *range(4, 4 + length)) for length in (9, 2, 2, 2)]
    found = microbatches(rows, 7, torch.device("cpu"), packed=True)
    assert sorted(batch.tokens.numel() for batch in found) == [5, 7, 12], "the longest stands alone"
    assert sorted(index for batch in found for index in batch.rows) == [0, 1, 2, 3]
