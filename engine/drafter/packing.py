"""Packs variable-length entries into one row without padding; attention keeps them apart (TLT section 3)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from engine.drafter.data_buffer import Entry
from engine.models.host_to_device import to_device

SEGMENT, ROW = 32, 128
"""Multiples of positions; see ``aligned``."""


@dataclass(frozen=True, eq=False)
class Segment:
    """Positions ``start <= t < stop`` of an entry, which see the ``past`` positions before them, too."""

    entry: Entry
    start: int
    stop: int
    past: int = 0

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def before(self) -> "Segment":
        """What it sees besides itself."""
        return Segment(self.entry, self.start - self.past, self.start)


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """One row of N positions t, each with what the drafter sees there and what it should predict.

    ``tokens`` [1, N]: x[t+1]; ``features`` [1, N, W]: those of t; ``targets`` [1, N, W]: those of t + 1; ``positions`` [1, N]: t;
    ``trained`` [1, N]: x[t+2] is a token that serving would draft; ``offset`` [1, N]: how many positions of its segment come before.
    ``lengths`` of the segments, N in all, which must not see each other; None if each row is one. ``past``: what each of them sees
    besides itself, in host memory; none if no segment sees anything.
    """

    tokens: Tensor
    features: Tensor
    targets: Tensor
    positions: Tensor
    trained: Tensor
    offset: Tensor
    lengths: tuple[int, ...] | None
    past: tuple[Segment, ...] = ()

    def to(self, device: torch.device) -> "MicroBatch":
        """All but ``trained`` and ``offset``, by which the host chooses."""
        moved: dict[str, Any] = {name: to_device(getattr(self, name), device) for name in ("tokens", "features", "targets", "positions")}
        return replace(self, **moved)


def cut(entry: Entry, bound: int, context: int = 0) -> list[Segment]:
    """The entry's positions as windows of ``bound``, the last one with what is left. Each sees at most ``context`` positions before it."""
    edges = [*range(0, entry.positions, bound), entry.positions]
    return [Segment(entry, start, stop, min(start, context)) for start, stop in pairwise(edges) if stop >= entry.prompt]


def rows(segments: Iterable[Segment], bound: int) -> Iterator[list[Segment]]:
    """Groups segments, in their order, into rows of at most ``bound`` positions."""
    row: list[Segment] = []
    room = bound
    for segment in segments:
        if row and len(segment) > room:
            yield row
            row, room = [], bound
        row.append(segment)
        room -= len(segment)
    if row:
        yield row


def pack(row: Sequence[Segment]) -> MicroBatch:
    """The tensors of a row."""
    owner = torch.repeat_interleave(torch.arange(len(row)), torch.tensor([len(segment) for segment in row]))
    positions = torch.cat([torch.arange(segment.start, segment.stop) for segment in row])
    response = torch.tensor([segment.entry.prompt - 1 for segment in row])
    first = torch.tensor([segment.entry.first for segment in row])
    return MicroBatch(
        tokens=torch.cat([segment.entry.tokens[segment.start + 1 : segment.stop + 1] for segment in row])[None],
        features=torch.cat([segment.entry.features[segment.start : segment.stop] for segment in row])[None],
        targets=torch.cat([segment.entry.features[segment.start + 1 : segment.stop + 1] for segment in row])[None],
        positions=(positions + first[owner])[None],
        trained=(positions >= response[owner])[None],
        offset=torch.cat([torch.arange(len(segment)) for segment in row])[None],
        lengths=tuple(map(len, row)),
        past=tuple(segment.before for segment in row) if any(segment.past for segment in row) else (),
    )


def aligned(batch: MicroBatch) -> MicroBatch:
    """With positions of zeros, which are not trained, behind each segment, up to a multiple of ``SEGMENT``, and behind the last one up to
    one of ``ROW``: what oneDNN prepares for each shape takes more time than they do, and stays in memory. No other position sees them."""
    assert batch.lengths is not None
    lengths = [-(-length // SEGMENT) * SEGMENT for length in batch.lengths]
    lengths[-1] += -sum(lengths) % ROW
    starts = [0, *accumulate(lengths)]
    places = torch.cat([torch.arange(start, start + length) for start, length in zip(starts, batch.lengths, strict=False)])

    def spread(each: Tensor) -> Tensor:
        return each.new_zeros(1, sum(lengths), *each.shape[2:]).index_copy_(1, places, each)

    spread_out = {name: spread(each) for name, each in vars(batch).items() if isinstance(each, Tensor)}
    return MicroBatch(**spread_out, lengths=tuple(lengths), past=batch.past)
