"""How rows are shared out over ranks."""

import random

import pytest

from engine.policy.training.row_shares import row_shares
from engine.policy.training.training_row import TrainingRow


def siblings(prompt: int, length: int, *responses: int) -> list[TrainingRow]:
    """Responses of these lengths to the prompt of this number and length."""
    return [TrainingRow((prompt,) * (length + response), length, 1.0, (0.0,) * response) for response in responses]


def test_siblings_stay_together_where_that_saves_more_than_it_unbalances() -> None:
    even = siblings(1, 100, 10, 20) + siblings(2, 100, 15, 15)
    assert row_shares(even, 2, range(4), shared=True) == [[0, 1], [2, 3]]
    uneven = siblings(1, 2, 500, 500) + siblings(2, 2, 10, 10)
    assert sorted(row_shares(uneven, 2, range(4), shared=True)) == [[0, 2], [1, 3]]


def test_nobody_waits_for_siblings_that_do_not_share_their_prompt() -> None:
    rows = siblings(1, 100, 10, 10) + siblings(2, 100, 90, 90)
    assert sorted(row_shares(rows, 2, range(4), shared=True)) == [[0, 1], [2, 3]]
    assert sorted(row_shares(rows, 2, range(4), shared=False)) == [[0, 2], [1, 3]]


@pytest.mark.parametrize("shared", [False, True])
def test_each_row_is_one_ranks_and_what_is_not_computed_costs_nothing(shared: bool) -> None:
    draw = random.Random(1)
    rows = [row for prompt in range(6) for row in siblings(prompt, 9, *(draw.randint(1, 60) for _ in range(4)))]
    computed = {0, 1, 2, 3, 20}
    shares = row_shares(rows, 3, computed, shared)
    assert sorted(index for share in shares for index in share) == list(range(len(rows)))
    assert all(share == sorted(share) for share in shares)
    busy = [sum(len(rows[index].tokens) for index in share if index in computed) for share in shares]
    assert max(busy) <= max(len(rows[20].tokens), sum(len(rows[index].tokens) for index in range(4)))
