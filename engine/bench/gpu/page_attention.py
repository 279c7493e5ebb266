"""Attention to pages of a model with the attention of Qwen2.5-7B: how long a layer takes, and a kernel of each kind to compile."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.bench.gpu.models import device
from engine.bench.gpu.parts import Part
from engine.rollout.native.layout.page_attention import PageReading, page_mask
from engine.rollout.native.layout.pages import Pages
from engine.rollout.native.placement import Placement

HEADS, GROUP, SIZE, CAPACITY = 4, 7, 128, 32_768
LEAST_BYTES = 2 * 10**8
"""Of the keys and values of all layers, which are read in turns: a GPU's cache has room for a quarter of it."""
REPLAYS = 10


@dataclass(frozen=True)
class Case:
    """``tokens`` of each of ``requests``, which have ``length`` positions with them."""

    requests: int
    tokens: int
    length: int
    tree: bool = False

    @property
    def bytes(self) -> int:
        """Of keys and values of a layer, in 16 bits."""
        return 2 * 2 * self.requests * self.length * HEADS * SIZE

    @property
    def layers(self) -> int:
        return max(10, LEAST_BYTES // self.bytes)

    def __str__(self) -> str:
        kind = " in a tree" if self.tree else ""
        return f"{self.requests} of {self.length:,} positions, {self.tokens}{kind}"


CASES = (
    *(Case(requests, tokens, 600) for requests in (1, 8, 32, 128) for tokens in (1, 5)),
    *(Case(requests, 25, 600, tree=True) for requests in (1, 8, 32, 128)),
    *(Case(1, tokens, 30_000, tree=tokens > 8) for tokens in (1, 5, 25)),
    Case(1, 500, 600),
    Case(8, 500, 600),
    Case(1, 4000, 4001),
)
SMALL = (Case(1, 1, 70), Case(2, 3, 70, tree=True))


def run(part: Part) -> None:
    """Microseconds, and by them the keys and values that are read and the products that are made at least; the first call compiles."""
    for case in SMALL if part.scale.emulated else CASES:
        part.found(cases={**part.result.get("cases", {}), str(case): _measure(case)})


def _measure(case: Case) -> dict[str, float]:
    where = device()
    attend = _attention(case, where, case.layers if where.type == "cuda" else 1)
    began = time.perf_counter()
    attend(0)
    if where.type == "cuda":
        torch.cuda.synchronize()
    first = time.perf_counter() - began
    seconds = _replayed(attend, case.layers) if where.type == "cuda" else _called(attend)
    seen = case.length - (0 if case.tree else (case.tokens - 1) / 2)  # positions, on average
    operations = 4 * case.requests * case.tokens * HEADS * GROUP * SIZE * seen
    return {
        "first_s": round(first, 2),
        "us": round(1e6 * seconds, 1),
        "gb_s": round(case.bytes / seconds / 1e9),
        "tflop_s": round(operations / seconds / 1e12, 1),
    }


def _attention(case: Case, where: torch.device, layers: int) -> Callable[[int], Tensor]:
    """That of a layer, whose keys and values lie as in the engine's cache."""
    pages = Pages(case.requests, CAPACITY, case.requests * (case.length // 64 + 1), where)
    for slot in range(case.requests):
        pages.grow(slot, case.length)
    pages.settle()
    dtype = torch.bfloat16 if where.type == "cuda" else torch.float32
    keys, values = torch.randn(layers, pages.rows, 2, HEADS, SIZE, device=where, dtype=dtype).permute(2, 0, 3, 1, 4)
    query = torch.randn(case.requests, HEADS, case.tokens * GROUP, SIZE, device=where, dtype=dtype)
    positions = (case.length - case.tokens + torch.arange(case.tokens, device=where)).expand(case.requests, -1)
    paths = torch.ones(case.requests, case.tokens, case.tokens, dtype=torch.bool, device=where).tril() if case.tree else None
    mask, reading = page_mask(pages, Placement(positions, CAPACITY, paths=paths), None), PageReading(keys.unbind(), values.unbind())
    return lambda layer: reading.attend(query, layer, mask, SIZE**-0.5)


def _replayed(attend: Callable[[int], Tensor], layers: int) -> float:
    """Seconds of one, in a graph of ``layers``, so that what the host does between two of them is left out."""
    beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        attend(0)
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for layer in range(layers):
            attend(layer)
    graph.replay()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(REPLAYS):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    milliseconds: float = start.elapsed_time(end)
    return milliseconds / 1000 / layers / REPLAYS


def _called(attend: Callable[[int], Tensor]) -> float:
    began = time.perf_counter()
    attend(0)
    return time.perf_counter() - began
