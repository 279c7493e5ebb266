"""Attention to pages: FlexAttention, and what stands for it on the emulated device, against all keys in one piece."""

import pytest
import torch
from sizes import only_with_all
from torch import Tensor
from torch.nn import functional as F

from engine.rollout.native.layout.page_attention import Kernels, PageReading, as_prompt, attend_to_pages, flex_to_pages
from engine.rollout.native.layout.page_mask import MOST_ROWS, page_mask, rows_of
from engine.rollout.native.layout.pages import Pages
from engine.rollout.native.placement import Placement

HEADS, GROUP, SIZE, PAGE = 2, 3, 16, 16
LENGTHS = (5, 70, 33)
CPU = torch.device("cpu")


class Cache:
    """Keys and values of three requests in pages, the first 16 positions of the last two shared, and in one piece."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.pages = Pages(4, 128, 16, CPU, PAGE)
        self.keys, self.values = torch.full((2, HEADS, self.pages.rows, SIZE), 1e3)
        self.whole = torch.randn(2, 3, HEADS, 128, SIZE, generator=generator)
        self.whole[:, 2, :, :PAGE] = self.whole[:, 1, :, :PAGE]
        for slot, length in enumerate(LENGTHS):
            if slot == 2:
                self.pages.share(1, 2, 20)
            self.pages.grow(slot, length + 10)
            rows = self.pages.span(slot, length + 10)
            self.keys[:, rows], self.values[:, rows] = self.whole[:, slot, :, : length + 10]
        self.pages.settle()

    def expected(self, query: Tensor, sees: Tensor) -> Tensor:
        """``sees`` [n, T, 128]."""
        mask = sees.repeat_interleave(GROUP, 1)[:, None]
        return F.scaled_dot_product_attention(query, self.whole[0], self.whole[1], mask, scale=0.3)


def chain(tokens: int) -> tuple[Placement, Tensor]:
    positions = torch.tensor(LENGTHS)[:, None] - 1 + torch.arange(tokens)
    return Placement(positions, 128), torch.arange(128) <= positions[:, :, None]


def tree() -> tuple[Placement, Tensor]:
    """Node 0 has two children, 1 and 2; 3 is a child of 2."""
    newest = torch.tensor(LENGTHS)[:, None] - 1
    paths = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]], dtype=torch.bool).expand(3, -1, -1)
    sees = (torch.arange(128) < newest)[:, None].repeat(1, 4, 1)
    sees.scatter_(2, (newest + torch.arange(4))[:, None].expand(3, 4, 4), paths)
    return Placement(newest + torch.tensor([0, 1, 1, 2]), 128, paths=paths), sees


CASES = {"one token": chain(1), "chain": chain(6), "tree": tree(), "prompt": (Placement(torch.arange(60).expand(3, -1), 60), None)}


@pytest.mark.parametrize("window", [None, 21])
@pytest.mark.parametrize("name", CASES)
def test_pages_are_read_as_if_they_were_one_piece(name: str, window: int | None) -> None:
    cache, (placed, sees) = Cache(), CASES[name]
    if sees is None:  # positions without a page are nobody's
        sees = torch.arange(128) <= placed.positions[:, :, None]
    if window:
        sees = sees & (torch.arange(128) > placed.positions[:, :, None] - window)
    query = torch.randn(3, HEADS, placed.tokens * GROUP, SIZE, generator=torch.Generator().manual_seed(1))
    mask = page_mask(cache.pages, placed, GROUP, window)
    mixed = PageReading([cache.keys], [cache.values]).attend(query, 0, mask, 0.3)
    known = [slot for slot, length in enumerate(LENGTHS) if length + 10 >= placed.tokens]
    torch.testing.assert_close(mixed[known], cache.expected(query, sees)[known], atol=1e-5, rtol=1e-5)
    assert mixed.isfinite().all()


@pytest.mark.parametrize("name", ["chain", "tree"])
def test_the_mask_is_what_flex_attention_takes(name: str) -> None:
    """As torch computes it without a compiler: by the mask of every position there is, so the request has all pages that there are."""
    (placed, sees), length = CASES[name], LENGTHS[1]
    assert sees is not None
    alone = Placement(placed.positions[1:2], 128, paths=None if placed.paths is None else placed.paths[1:2])
    pages = Pages(1, 80, 5, CPU, PAGE)
    pages.grow(0, length + 10)
    pages.settle()
    keys, values = torch.randn(2, HEADS, pages.rows, SIZE, generator=torch.Generator().manual_seed(0))
    blocks, block = rows_of(placed.tokens * GROUP)
    query = torch.randn(1, HEADS, blocks * block, SIZE, generator=torch.Generator().manual_seed(1))
    mask = page_mask(pages, alone, GROUP, None)
    mixed = flex_to_pages(query, keys, values, mask, 0.3)
    torch.testing.assert_close(mixed, attend_to_pages(query, keys, values, *mask, 0.3), atol=1e-5, rtol=1e-5)
    rows = pages.span(0, 80)
    expected = F.scaled_dot_product_attention(
        query[:, :, : placed.tokens * GROUP],
        keys[None, :, rows],
        values[None, :, rows],
        sees[1:2, :, :80].repeat_interleave(GROUP, 1)[:, None],
        scale=0.3,
    )
    torch.testing.assert_close(mixed[:, :, : placed.tokens * GROUP], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["one token", "chain", "tree"])
def test_few_rows_have_all_their_pages_in_one_list(name: str) -> None:
    """The GPU's kernel for them finds pages that are seen as a whole by the strides of the others' list, and splits the whole cache, not
    what a request has, if there are two lists."""
    cache, placed = Cache(), CASES[name][0]
    mask = page_mask(cache.pages, placed, GROUP, None)
    assert mask.full is None
    assert mask.full_count is None
    last = placed.positions.amax(1) if placed.paths is None else placed.root[:, 0] + 3
    for slot, count in enumerate((last // PAGE + 1).tolist()):
        assert mask.partial_count[slot].tolist() == [[count]]
        assert torch.equal(mask.partial[slot, 0, 0, :count], cache.pages.entries[slot, :count])


def test_a_prompts_two_lists_are_equally_long() -> None:
    """Before torch 2.12 the GPU's kernel for prompts finds those seen as a whole by the strides of the others' list."""
    cache, placed = Cache(), Placement(torch.arange(60).expand(3, -1), 128)
    mask = page_mask(cache.pages, placed, GROUP, None)
    assert mask.full is not None
    assert mask.full.shape == mask.partial.shape
    assert mask.full.stride() == mask.partial.stride()


def test_the_levels_of_trees_share_kernels() -> None:
    """Of Qwen2.5-7B at 8 numbers of requests, three strategies whose 93 levels have 744 shapes."""
    kernels, layout = Kernels(), Pages(128, 256, 1, CPU)
    keys = torch.empty(4, layout.rows, 128)
    for requests in (1, 2, 4, 8, 16, 32, 64, 128):
        newest = torch.full((requests, 1), 40)
        for top_k in (2, 3, 4):
            for level in range(1, 32):
                paths = torch.ones(requests, top_k, top_k * level, dtype=torch.bool)
                mask = page_mask(layout, Placement(newest.expand(-1, top_k), 256, newest=newest, paths=paths), 7, None)
                assert kernels.have_own(torch.empty(requests, 4, mask.positions.shape[1], 128), keys, keys, mask)
    assert len(kernels.shapes) == 8 * (3 + 4)


@pytest.mark.parametrize("name", ["one token", "chain", "tree"])
def test_shapes_beyond_the_kernels_there_may_be_are_read_as_prompts_are(name: str) -> None:
    cache, placed, kernels = Cache(), CASES[name][0], Kernels(most=1)
    mask = page_mask(cache.pages, placed, GROUP, None)
    rows = mask.positions.shape[1]
    query = torch.randn(3, HEADS, rows, SIZE, generator=torch.Generator().manual_seed(1))
    assert [kernels.have_own(each, cache.keys, cache.values, mask) for each in (query, query[:2], query)] == [True, False, True]
    widened, among = as_prompt(query, mask)
    assert widened.shape[2] == among.positions.shape[1] == MOST_ROWS
    mixed = attend_to_pages(widened, cache.keys, cache.values, *among, 0.3)
    torch.testing.assert_close(mixed[:, :, :rows], attend_to_pages(query, cache.keys, cache.values, *mask, 0.3))


@only_with_all
@pytest.mark.parametrize("name", ["tree", "chain"])
def test_its_compiled_kernels_read_the_pages_that_the_mask_lists(name: str) -> None:
    """Those for a CPU, as there is no GPU: of all requests together, among the pages of others."""
    cache, (placed, _) = Cache(), CASES[name]
    blocks, block = rows_of(placed.tokens * GROUP)
    query = torch.randn(3, HEADS, blocks * block, SIZE, generator=torch.Generator().manual_seed(1))
    mask = page_mask(cache.pages, placed, GROUP, None)
    ours = attend_to_pages(query, cache.keys, cache.values, *mask, 0.3)
    # A kernel for a CPU, and no other, wants a list with room for as many pages as there are, and tensors without gaps.
    pages = cache.pages.rows // PAGE
    partial = F.pad(mask.partial, (0, pages - mask.partial.shape[-1]))
    mask = mask._replace(partial=partial, newest=None if mask.newest is None else mask.newest.contiguous())
    compiled = torch.compile(flex_to_pages, fullgraph=True, dynamic=False)
    mixed = compiled(query, cache.keys, cache.values, mask, 0.3)
    torch.testing.assert_close(mixed, ours, atol=1e-4, rtol=1e-4)


def attended(device: torch.device, size: int, tokens: int) -> Tensor:
    """Of four requests that have up to 33 pages each."""
    pages, lengths = Pages(4, 4096, 80, device), torch.tensor([100, 700, 2100, 1000])
    for slot, length in enumerate(lengths.tolist()):
        pages.grow(slot, length)
    pages.settle()
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.randn(2, HEADS, pages.rows, size, generator=generator).to(device, torch.bfloat16)
    query = torch.randn(4, HEADS, tokens * GROUP, size, generator=generator).to(device, torch.bfloat16)
    placed = Placement((lengths[:, None] - tokens + torch.arange(tokens)).to(device), 4096)
    return PageReading([keys], [values]).attend(query, 0, page_mask(pages, placed, GROUP, None), 0.1).cpu()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("size", "tokens"), [(64, 1), (128, 8), (64, 90)])
def test_a_gpu_reads_the_pages_that_the_mask_lists(size: int, tokens: int) -> None:
    """A token, a chain and a prompt, of which each has a kernel of its own."""
    expected = attended(CPU, size, tokens)
    torch.testing.assert_close(attended(torch.device("cuda"), size, tokens), expected, atol=2e-2, rtol=2e-2)
