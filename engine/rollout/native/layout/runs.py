"""Requests of a batch that attention takes together. All that it takes together is read as far as the longest reaches, and each time that
it is called costs something; so a batch of unequal lengths is better taken in parts. The bits are the same (attention.py)."""

from collections.abc import Sequence

import torch

CALL = 2**13
"""Numbers of keys whose reading takes as long as another call."""
TOGETHER = 16
"""Requests of which the best parts are looked for at once."""


def runs(reaches: Sequence[int], heads: int, head_dim: int) -> list[tuple[int, int, int]]:
    """Parts of slots whose requests reach so far: first slot, the one behind the last, and how far the longest reaches. ``heads`` are those
    of keys, which threads share out."""
    call, most = CALL // (heads * head_dim), max(reaches)
    if len(reaches) * most - sum(reaches) <= 2 * call:
        return [(0, len(reaches), most)]
    found: list[tuple[int, int, int]] = []
    for first in range(0, len(reaches), TOGETHER):
        found += [(first + start, first + stop, reach) for start, stop, reach in _best(reaches[first : first + TOGETHER], heads, call)]
    return found


def _best(reaches: Sequence[int], heads: int, call: int) -> list[tuple[int, int, int]]:
    """Of least cost, found from each place for all that is before it."""
    threads = torch.get_num_threads()
    shares = [-(-size * heads // threads) * threads / heads for size in range(len(reaches) + 1)]
    costs, last = [0.0], [(0, 0, 0)]
    for stop in range(1, len(reaches) + 1):
        reach, best, chosen = 0, torch.inf, (0, 0, 0)
        for start in reversed(range(stop)):
            reach = max(reach, reaches[start])
            cost = costs[start] + call + shares[stop - start] * reach
            if cost < best:
                best, chosen = cost, (start, stop, reach)
        costs.append(best)
        last.append(chosen)
    found, stop = [], len(reaches)
    while stop:
        found.append(last[stop])
        stop = last[stop][0]
    return found[::-1]
