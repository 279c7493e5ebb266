"""What may be begun when, and how old what is learned from is."""

import pytest

from engine.experience.staleness import begun_by, staleness
from engine.rollout.interface import Completion, PartialResponse, Request


@pytest.mark.parametrize(
    ("version", "bound", "expected"), [(0, 0, [0]), (0, 1, [0, 1]), (3, 1, [3, 4]), (3, 2, [3, 4, 5]), (9, 1, [9]), (8, 4, [8, 9])]
)
def test_a_policy_begins_no_further_ahead_than_the_bound_and_nothing_beyond_the_end(version: int, bound: int, expected: list[int]) -> None:
    assert list(begun_by(version, bound, steps=10)) == expected


def completion(*spans: tuple[int, int]) -> Completion:
    """All but the last span by earlier rollouts."""
    *earlier, (version, new) = spans
    known, total = sum(count for _, count in earlier), sum(count for _, count in spans)
    begun = PartialResponse((0,) * known, (0.0,) * known, tuple(earlier))
    assert total == known + new
    return Completion(Request(0, 0, (1,), begun), (0,) * total, (0.0,) * total, "stop", version, 0)


def test_each_token_counts_by_the_version_that_wrote_it() -> None:
    found = staleness([completion((3, 2), (4, 1), (5, 3)), completion((5, 4))], step=5)
    assert found == {"stale_share": 3 / 10, "staleness_mean": (2 * 2 + 1) / 10, "staleness_max": 2}


def test_what_the_present_policy_wrote_is_not_stale() -> None:
    assert staleness([completion((7, 2))], step=7) == {"stale_share": 0, "staleness_mean": 0, "staleness_max": 0}
