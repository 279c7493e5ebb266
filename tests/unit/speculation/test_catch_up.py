"""Who catches up together, and what that is worth to know beforehand."""

import pytest

from engine.speculation.catch_up import catch_up_ranges, caught_up


@pytest.mark.parametrize(
    ("behind", "ranges"),
    [
        ([300], [(0, 1)]),
        ([1, 9, 1, 20], [(0, 4)]),
        ([4, 2, 40], [(0, 2), (2, 3)]),
        ([1, 1, 300, 200], [(0, 2), (2, 4)]),
        ([100, 1, 1], [(0, 1), (1, 3)]),
        ([90, 80, 30], [(0, 3)]),
        ([1, 300, 1, 300], [(0, 4)]),
    ],
)
def test_two_ranges_catch_up_by_themselves_where_that_spares_a_third(behind: list[int], ranges: list[tuple[int, int]]) -> None:
    assert catch_up_ranges(behind) == ranges


@pytest.mark.parametrize(("behind", "positions"), [([5, 5, 5], 5), ([1, 9, 1, 20], 20), ([4, 2, 40], 16), ([1, 300, 1, 300], 300)])
def test_the_tuner_is_told_what_will_be_read(behind: list[int], positions: int) -> None:
    """Of three requests of which one has just come: 2 x 4 + 40 positions, 16 each."""
    assert caught_up(behind) == positions
