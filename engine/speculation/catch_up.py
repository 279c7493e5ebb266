"""How a learned drafter catches up with what the target has seen meanwhile."""

from collections.abc import Sequence
from itertools import accumulate

FAR = 32
"""Positions behind which a request is that has just come, or was decoded plainly; drafts of the usual depths leave fewer."""


def catch_up_ranges(behind: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of slots that catch up by themselves: one, or two where that spares a third. For those who came last lie last, and have all of
    their prompt to catch up with, of which the others would repeat as much."""
    n, most = len(behind), max(behind)
    if most < FAR:
        return [(0, n)]
    before, after = list(accumulate(behind, max)), list(accumulate(reversed(behind), max))[::-1]
    read = [cut * before[cut - 1] + (n - cut) * after[cut] for cut in range(1, n)]
    cut = min(range(1, n), key=lambda each: read[each - 1], default=n)
    return [(0, cut), (cut, n)] if cut < n and 3 * read[cut - 1] <= 2 * n * most else [(0, n)]


def caught_up(behind: Sequence[int]) -> int:
    """Positions that each request's drafter reads then, in the mean, rounded up."""
    read = sum((after - first) * max(behind[first:after]) for first, after in catch_up_ranges(behind))
    return -(-read // len(behind))
