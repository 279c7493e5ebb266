"""Attention to pages: the GPU's kernels, and what stands for them on the emulated device, against all keys in one piece."""

from itertools import product
from pathlib import Path
from typing import Any

import interpreted_kernels
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from engine.rollout.native.layout.page_attention import PageMask, PageReading, page_mask
from engine.rollout.native.layout.pages import Pages
from engine.rollout.native.placement import Placement

HEADS, GROUP, SIZE, PAGE = 2, 3, 16, 16
LENGTHS = (5, 70, 33)
CPU = torch.device("cpu")
NOBODYS = 1e3
"""What lies in the cache where nothing was written."""


class Cache:
    """Keys and values of three requests in pages, the first 16 positions of the last two shared, and in one piece."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.pages = Pages(4, 128, 16, CPU, PAGE)
        self.keys, self.values = torch.full((2, HEADS, self.pages.rows, SIZE), NOBODYS)
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


def asked_of(name: str, window: int | None) -> tuple[Cache, Tensor, PageMask, Tensor, list[int]]:
    """A query to the cache, what it sees [n, T, 128], and the requests that have all the positions they are asked for."""
    cache, (placed, sees) = Cache(), CASES[name]
    if sees is None:  # positions without a page are nobody's
        sees = torch.arange(128) <= placed.positions[:, :, None]
    if window:
        sees = sees & (torch.arange(128) > placed.positions[:, :, None] - window)
    query = torch.randn(3, HEADS, placed.tokens * GROUP, SIZE, generator=torch.Generator().manual_seed(1))
    known = [slot for slot, length in enumerate(LENGTHS) if length + 10 >= placed.tokens]
    return cache, query, page_mask(cache.pages, placed, window), sees, known


@pytest.mark.parametrize("window", [None, 21])
@pytest.mark.parametrize("name", CASES)
def test_pages_are_read_as_if_they_were_one_piece(name: str, window: int | None) -> None:
    cache, query, mask, sees, known = asked_of(name, window)
    mixed = PageReading([cache.keys], [cache.values]).attend(query, 0, mask, 0.3)
    torch.testing.assert_close(mixed[known], cache.expected(query, sees)[known], atol=1e-5, rtol=1e-5)
    assert mixed.isfinite().all()


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int | None, int], Tensor]:
    """What the kernels compute for each case, run by Triton's interpreter, by its window and the processors there are."""
    pytest.importorskip("triton")
    calls = {}
    for case in product(CASES, (None, 21), (1, 1000)):
        cache, query, mask, *_ = asked_of(*case[:2])
        nobodys = cache.values.masked_fill(cache.values == NOBODYS, torch.nan)
        calls[case] = (query, cache.keys, nobodys, *mask, 0.3, case[2])
    cache, query, mask, *_ = asked_of("chain", None)
    for processors in (1, 1000):  # heads that are no power of two wide, and parts of larger tensors
        calls["narrow", None, processors] = (query[..., :11], cache.keys[..., :11], cache.values[..., :11], *mask, 0.3, processors)
    return dict(zip(calls, interpreted_kernels.attend([*calls.values()], tmp_path_factory.mktemp("calls")), strict=True))


@pytest.mark.parametrize("processors", [1, 1000], ids=["whole", "shared out"])
@pytest.mark.parametrize("window", [None, 21])
@pytest.mark.parametrize("name", CASES)
def test_the_kernels_read_pages_as_if_they_were_one_piece(
    name: str, window: int | None, processors: int, interpreted: dict[tuple[str, int | None, int], Tensor]
) -> None:
    cache, query, _, sees, known = asked_of(name, window)
    mixed = interpreted[name, window, processors]
    torch.testing.assert_close(mixed[known], cache.expected(query, sees)[known], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("processors", [1, 1000], ids=["whole", "shared out"])
def test_heads_need_not_be_powers_of_two_wide(processors: int, interpreted: dict[tuple[str, int | None, int], Tensor]) -> None:
    cache, query, _, sees, _ = asked_of("chain", None)
    cache.whole = cache.whole[..., :11]
    expected = cache.expected(query[..., :11], sees)
    torch.testing.assert_close(interpreted["narrow", None, processors], expected, atol=1e-5, rtol=1e-5)


def test_few_programs_share_their_pages_out_until_all_processors_have_work() -> None:
    page_kernel = pytest.importorskip("engine.rollout.native.layout.page_kernel")
    assert page_kernel.splits_of(4, 512, 132) == 64
    assert page_kernel.splits_of(4, 3, 132) == 2, "there are no more pages"
    assert page_kernel.splits_of(32, 512, 132) == 8
    assert page_kernel.splits_of(133, 512, 132) == page_kernel.splits_of(10_000, 512, 132) == 1


SHARED = {80: 166_912, 86: 101_376, 90: 232_448, 100: 232_448}
"""Bytes that a program may have on a GPU of such a compute capability."""
CHAIN, TREE = {"tree": False, "window": 0}, {"tree": True, "window": 0}


@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize("size", [64, 128, 256])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("read_pages", CHAIN | {"split": True}),
        ("read_pages", TREE | {"split": False}),
        ("read_pages", TREE | {"split": True, "window": 21}),
        ("join_splits", {}),
    ],
    ids=["chain", "tree", "tree in a window", "join"],
)
def test_the_kernels_compile_for_gpus_that_are_not_here(
    name: str, options: dict[str, Any], size: int, capability: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from engine.rollout.native.layout import page_kernel

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    integers = ("table", "positions", "newest", "paths")
    pointers = dict.fromkeys(integers[1:], "*i64") | {"table": "*i32", "output": "*bf16", "parts": "*fp32", "log_sums": "*fp32"}
    pointers |= dict.fromkeys(("query", "keys", "values"), "*bf16") | {"scale": "fp32"}
    block = page_kernel.block_of(1000, size, 2)
    fixed = {"heads": 4, "group": 7, "size": size, "page": 64, "block": block, "columns": size, "most": 64} | options
    kernel = getattr(page_kernel, name)
    signature = {each: "constexpr" if each in fixed else pointers.get(each, "i32") for each in kernel.arg_names}
    if options.get("split"):
        signature["output"] = "*fp32"
    source = ASTSource(kernel, signature, constexprs={each: fixed[each] for each in kernel.arg_names if each in fixed})
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 4 if block * size <= 8192 else 8})
    assert compiled.asm["cubin"]
    assert compiled.metadata.shared <= SHARED[capability]


def attended(device: torch.device, size: int, tokens: int, tree: bool, window: int | None) -> Tensor:
    """Of four requests that have up to 33 pages each."""
    pages, lengths = Pages(4, 4096, 80, device), torch.tensor([100, 700, 2100, 1000])
    for slot, length in enumerate(lengths.tolist()):
        pages.grow(slot, length)
    pages.settle()
    generator = torch.Generator().manual_seed(0)
    store = torch.randn(pages.rows, 2, HEADS, size, generator=generator).to(device, torch.bfloat16)
    keys, values = store.permute(1, 2, 0, 3)  # as the engine's cache has them
    query = torch.randn(4, HEADS, tokens * GROUP, size, generator=generator).to(device, torch.bfloat16)
    positions = (lengths[:, None] - tokens + torch.arange(tokens)).to(device)
    paths = ((torch.rand(4, tokens, tokens, generator=generator) < 0.5).tril() | torch.eye(tokens, dtype=torch.bool)).to(device)
    placed = Placement(positions, 4096, paths=paths if tree else None)
    return PageReading([keys], [values]).attend(query, 0, page_mask(pages, placed, window), 0.1).cpu()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("window", [None, 300])
@pytest.mark.parametrize(("size", "tokens", "tree"), [(64, 1, False), (128, 8, False), (96, 25, True), (256, 70, True), (32, 90, False)])
def test_a_gpu_reads_the_pages_of_each_request(size: int, tokens: int, tree: bool, window: int | None) -> None:
    """A token, a chain, trees and a prompt."""
    expected = attended(CPU, size, tokens, tree, window)
    torch.testing.assert_close(attended(torch.device("cuda"), size, tokens, tree, window), expected, atol=5e-3, rtol=2e-2)
