"""Shares of nearly equal size. Pure."""

import heapq
from collections.abc import Sequence


def balance(lengths: Sequence[int], parts: int, loads: Sequence[int] = ()) -> list[list[int]]:
    """Indices of ``lengths`` in ``parts`` lists of nearly equal total length: each goes, longest first, to the least loaded part.

    Deterministic. ``loads``: what each part has beforehand, by default nothing; then totals differ by at most the longest length. Each
    list is sorted, and may be empty.
    """
    heap = [(loads[part] if loads else 0, part) for part in range(parts)]
    heapq.heapify(heap)
    members: list[list[int]] = [[] for _ in range(parts)]
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        load, part = heap[0]
        members[part].append(index)
        heapq.heapreplace(heap, (load + lengths[index], part))
    return [sorted(part) for part in members]
