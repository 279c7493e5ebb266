"""Attention to pages in two kernels of Triton's, for a GPU: one reads a request's pages, shared out among ``splits`` programs where few
rows would leave processors idle, and the other joins what these have found (as Flash-Decoding does)."""

import torch
import triton
import triton.language as tl
from torch import Tensor

LEAST_ROWS, MOST_ROWS = 16, 64
"""Of a block of a query."""
MOST_SPLITS = 64
PROGRAMS = 2
"""For each processor of a GPU."""
LOG2_E = 1.4426950408889634


@triton.jit(do_not_specialize=["rows", "tokens", "width", "nodes", "splits"])  # type: ignore[untyped-decorator]
def read_pages(
    mixed: tl.tensor,
    logs: tl.tensor,
    query: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    table: tl.tensor,
    positions: tl.tensor,
    newest: tl.tensor,
    paths: tl.tensor,
    scale: tl.tensor,
    rows: tl.tensor,
    tokens: tl.tensor,
    width: tl.tensor,
    nodes: tl.tensor,
    splits: tl.tensor,
    query_request: tl.tensor,
    query_head: tl.tensor,
    query_row: tl.tensor,
    cache_head: tl.tensor,
    cache_row: tl.tensor,
    heads: tl.constexpr,
    group: tl.constexpr,
    size: tl.constexpr,
    page: tl.constexpr,
    window: tl.constexpr,
    tree: tl.constexpr,
    split: tl.constexpr,
    block: tl.constexpr,
    columns: tl.constexpr,
) -> None:
    """What a block of rows sees of every ``splits``-th page, from the ``part``-th on: the mean of values in ``mixed``, and in ``logs`` the
    logarithm, to base 2, of the sum of weights."""
    request, part = (tl.program_id(0) // splits).to(tl.int64), tl.program_id(0) % splits
    head, row = tl.program_id(1).to(tl.int64), tl.program_id(2) * block + tl.arange(0, block)
    there, column = row < rows, tl.arange(0, columns)
    token = tl.minimum(row // group, tokens - 1)
    own = tl.load(positions + request * tokens + token)
    known = column[None, :] < size
    asked = query + request * query_request + head * query_head + row[:, None] * query_row + column[None, :]
    q = tl.load(asked, mask=there[:, None] & known, other=0.0)
    if tree:
        root = tl.load(newest + request)
        last = (root + nodes - 1) // page + 1
    else:
        root = tl.max(own, 0)
        last = root // page + 1
    begin = tl.maximum(tl.min(own, 0) - window + 1, 0) // page if window else 0
    best = tl.full([block], -float("inf"), tl.float32)
    total = tl.zeros([block], tl.float32)
    found = tl.zeros([block, columns], tl.float32)
    for place in range(begin + part, last, splits):
        offset = tl.arange(0, page)
        entry = tl.load(table + request * width + place).to(tl.int64) * page + offset
        position = place * page + offset
        cached = head * cache_head + entry[:, None] * cache_row + column[None, :]
        k = tl.load(keys + cached, mask=known, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if tree:
            if (place + 1) * page > root:  # all of the nodes see what is before them
                node = (position - root)[None, :]
                in_tree = (node >= 0) & (node < nodes)
                on_path = tl.load(paths + (request * tokens + token)[:, None] * nodes + node, mask=in_tree, other=0)
                scores = tl.where((node < 0) | (in_tree & (on_path != 0)), scores, -float("inf"))
        else:
            scores = tl.where(position[None, :] <= own[:, None], scores, -float("inf"))
        if window:
            scores = tl.where(position[None, :] > own[:, None] - window, scores, -float("inf"))
        better = tl.maximum(best, tl.max(scores, 1))
        base = tl.where(better == -float("inf"), 0.0, better)
        weights, kept = tl.exp2(scores - base[:, None]), tl.exp2(best - base)
        v = tl.load(values + cached, mask=known, other=0.0)
        total = total * kept + tl.sum(weights, 1)
        found = found * kept[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        best = better
    seen = total > 0
    found /= tl.where(seen, total, 1.0)[:, None]
    line = (request * heads + head) * rows + row
    if split:
        line = line * splits + part
        tl.store(logs + line, tl.where(seen, best + tl.log2(tl.where(seen, total, 1.0)), -float("inf")), mask=there)
    tl.store(mixed + line[:, None] * size + column[None, :], found.to(mixed.dtype.element_ty), mask=there[:, None] & known)


@triton.jit(do_not_specialize=["splits"])  # type: ignore[untyped-decorator]
def join_splits(
    mixed: tl.tensor,
    parts: tl.tensor,
    logs: tl.tensor,
    splits: tl.tensor,
    size: tl.constexpr,
    columns: tl.constexpr,
    most: tl.constexpr,
) -> None:
    """A row of ``mixed`` [rows, size] from ``parts`` [rows, splits, size] and their ``logs``."""
    row, part, column = tl.program_id(0).to(tl.int64), tl.arange(0, most), tl.arange(0, columns)
    log = tl.load(logs + row * splits + part, mask=part < splits, other=-float("inf"))
    best = tl.max(log, 0)
    weights = tl.exp2(log - tl.where(best == -float("inf"), 0.0, best))
    known = (part < splits)[:, None] & (column < size)[None, :]
    found = tl.load(parts + (row * splits + part)[:, None] * size + column[None, :], mask=known, other=0.0)
    total = tl.sum(weights, 0)
    whole = tl.sum(found * weights[:, None], 0) / tl.where(total > 0, total, 1.0)
    tl.store(mixed + row * size + column, whole.to(mixed.dtype.element_ty), mask=column < size)


def splits_of(programs: int, pages: int, processors: int) -> int:
    """Among how many programs each of ``programs`` shares out up to so many pages, so that all of a GPU's processors have work: a power of
    two."""
    wanted = min(max(1, PROGRAMS * processors // programs), pages, MOST_SPLITS)
    return int(1 << (wanted.bit_length() - 1))


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    positions: Tensor,
    newest: Tensor | None,
    paths: Tensor | None,
    window: int,
    page: int,
    scale: float,
    processors: int,
) -> Tensor:
    """See ``page_attention.attend_to_pages``; ``processors``: those of the GPU."""
    n, heads, rows, size = query.shape
    tokens, nodes = positions.shape[1], 0 if paths is None else paths.shape[2]
    block = min(max(LEAST_ROWS, triton.next_power_of_2(rows)), MOST_ROWS)
    blocks, columns = triton.cdiv(rows, block), max(LEAST_ROWS, triton.next_power_of_2(size))
    splits = splits_of(n * heads * blocks, table.shape[1], processors)
    mixed = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    parts = torch.empty(n, heads, rows, splits, size, dtype=torch.float32, device=query.device) if splits > 1 else mixed
    logs = torch.empty(n, heads, rows, splits, dtype=torch.float32, device=query.device) if splits > 1 else mixed
    read_pages[n * splits, heads, blocks](
        parts,
        logs,
        query,
        keys,
        values,
        table,
        positions,
        positions if newest is None else newest,
        positions if paths is None else paths.view(torch.uint8),
        scale * LOG2_E,
        rows,
        tokens,
        table.stride(0),
        nodes,
        splits,
        *query.stride()[:3],
        *keys.stride()[:2],
        heads=heads,
        group=rows // tokens,
        size=size,
        page=page,
        window=window,
        tree=paths is not None,
        split=splits > 1,
        block=block,
        columns=columns,
        num_warps=4 if block * columns <= 64 * 128 else 8,
    )
    if splits > 1:
        join_splits[(n * heads * rows,)](mixed, parts, logs, splits, size=size, columns=columns, most=MOST_SPLITS, num_warps=4)
    return mixed
