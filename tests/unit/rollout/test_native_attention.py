"""Attention has the same bits however far the cache is read, and whatever rows are beside a row."""

import pytest
import torch
from native_cases import with_mkl
from torch import Tensor
from torch.nn.functional import pad

from engine.rollout.native.attention import attend, part_length, row_unit
from engine.rollout.native.reach import BLOCK, LANES, PARTS, whole_reach

pytestmark = with_mkl
SEEN = (20, 108, 150, 196, 240, 300, 390, 500, 530, 660, 740, 900)
FURTHER = (0, 30, 90, 170, 300, 600)
LONGEST = 1500 + BLOCK


class Attention:
    """Of 40 rows of two requests with three heads, to a cache of whose positions the first are seen."""

    def __init__(self, head_dim: int) -> None:
        generator = torch.Generator().manual_seed(head_dim)
        self._query = torch.randn(2, 3, 40, head_dim, generator=generator)
        self._keys, self._values = torch.randn(2, 2, 3, LONGEST, head_dim, generator=generator)
        self._head_dim = head_dim

    def __call__(self, seen: int, reach: int, rows: slice = slice(None)) -> Tensor:
        query = self._query[:, :, rows]
        mask = torch.zeros(2, 1, query.shape[2], reach)
        mask[..., seen:] = -torch.inf
        filled = pad(mask, (0, 0, 0, -mask.shape[2] % row_unit(self._head_dim)))
        return attend(query, self._keys[:, :, :reach], self._values[:, :, :reach], filled, self._head_dim**-0.5)


@pytest.mark.parametrize("head_dim", [8, 16, 64, 80, 128, 256])
@pytest.mark.usefixtures("threads")
def test_it_has_the_same_bits_however_far_the_cache_is_read(head_dim: int) -> None:
    attention = Attention(head_dim)
    for seen in SEEN:
        reaches = [whole_reach(seen + further, LANES, part_length()) for further in FURTHER]
        first, *others = (attention(seen, reach) for reach in reaches)
        assert all(torch.equal(first, other) for other in others)


@pytest.mark.parametrize("head_dim", [8, 16, 64, 80, 128, 256])
@pytest.mark.usefixtures("threads")
def test_a_row_has_the_bits_it_has_alone(head_dim: int) -> None:
    attention = Attention(head_dim)
    for seen in SEEN:
        reach = whole_reach(seen, LANES, part_length())
        together = attention(seen, reach)
        for start, stop in ((0, 1), (3, 8), (10, 17), (5, 36)):
            assert torch.equal(attention(seen, reach, slice(start, stop)), together[:, :, start:stop])


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("granularity", [LANES, 48, 256])
def test_a_whole_reach_stays_as_it_is(part: int, granularity: int) -> None:
    """So the capacity of a cache, which is one, is never exceeded by the reach of a pass within it."""
    found = [whole_reach(reach, granularity, part) for reach in range(1, 3 * BLOCK)]
    assert all(whole_reach(reach, granularity, part) == reach and reach % granularity == 0 for reach in found)
    assert found == sorted(found)
    assert all(reach >= least for least, reach in enumerate(found, 1))
    assert not any(part < reach % BLOCK < 2 * part for reach in found)


def test_read_by_other_parts_it_would_not_have_them() -> None:
    attention = Attention(64)
    (other,) = set(PARTS) - {part_length()}
    read = [[whole_reach(seen + further, LANES, other) for further in FURTHER] for seen in SEEN]
    assert any(
        not torch.equal(attention(seen, reaches[0]), attention(seen, reach))
        for seen, reaches in zip(SEEN, read, strict=True)
        for reach in reaches
    )
