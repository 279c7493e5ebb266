"""Shares of nearly equal size. Pure."""

import heapq
from collections.abc import Sequence


def balance(lengths: Sequence[int], parts: int) -> list[list[int]]:
    """Indices of ``lengths`` in ``parts`` lists of nearly equal total length: each goes, longest first, to the least loaded part.

    Deterministic. Totals differ by at most the longest length; each list is sorted, and may be empty.
    """
    loads = [(0, part) for part in range(parts)]
    members: list[list[int]] = [[] for _ in range(parts)]
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        load, part = loads[0]
        members[part].append(index)
        heapq.heapreplace(loads, (load + lengths[index], part))
    return [sorted(part) for part in members]
