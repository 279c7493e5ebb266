"""How far behind its known tokens a request writes to the cache, and how far that is read. Needs no torch: a submission asks it, too.

What decides the order in which torch's kernel for CPUs adds up, found by comparing bits under AVX2 and AVX-512 with one and two threads,
on Intel and AMD, is told in attention.py: blocks of ``BLOCK`` positions, of which no more than one of ``PARTS`` are added up one after the
other, and the place of a position among ``LANES``.
"""

from typing import Protocol

BLOCK = 512
PARTS = (256, 192)
LANES = 16


class Shape(Protocol):
    """Of drafts; see StrategyConfig."""

    @property
    def depth(self) -> int: ...
    @property
    def top_k(self) -> int: ...
    @property
    def verify(self) -> int: ...


def whole_reach(reach: int, granularity: int, part: int) -> int:
    """The number of positions to read so that at least ``reach`` are: a multiple of ``granularity`` (one of 16), and two parts of a block
    or more that is read beyond its first ``part``, lest MKL makes two equal ones of what is read."""
    whole = -(-reach // granularity) * granularity
    within = whole % BLOCK
    if part < within < 2 * part:
        whole += 2 * part - within
    return -(-whole // granularity) * granularity


def entries_needed(nodes: int) -> int:
    """Positions behind the newest token that a tree of so many drafts may take."""
    return min((LANES + 1) * nodes, nodes + max(PARTS)) + 1


def written_behind(drafts: Shape, on_cpu: bool) -> int:
    """Positions beyond the newest token that drafting and verifying ``drafts`` may write to."""
    placed = drafts.top_k > 1 and on_cpu
    verified = entries_needed(drafts.verify) if placed else drafts.verify
    return max(verified, (drafts.depth - 1) * drafts.top_k)
