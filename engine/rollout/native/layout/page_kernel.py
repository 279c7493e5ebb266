"""Attention to pages in two kernels of Triton's, for a GPU: one reads a request's pages, shared out among ``splits`` programs where few
rows would leave processors idle, and the other joins what these have found (as Flash-Decoding does)."""

import torch
import triton
import triton.language as tl
from torch import Tensor

LEAST_ROWS, MOST_ROWS = 16, 64
"""Of a block of a query."""
WIDE = 256
"""Bytes of a row of keys beyond which a block has half as many rows: else smaller GPUs (sm_86, sm_89) lack shared memory."""
MOST_SPLITS = 64
PROGRAMS = 2
"""For each processor of a GPU."""
LOG2_E = 1.4426950408889634


@triton.jit  # type: ignore[untyped-decorator]
def word_of(words: tl.tensor, index: tl.tensor, count: tl.tensor) -> tl.tensor:
    """Bits of nodes, by row; all are set of what lies before the tree, and none behind it."""
    inside = (index >= 0) & (index < count)
    bits = tl.load(words + index, mask=inside, other=0)
    return tl.where(index < 0, -1, bits).to(tl.uint64, bitcast=True)


@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize=["rows", "tokens", "width", "nodes", "splits"],
    do_not_specialize_on_alignment=["table", "positions", "newest", "paths"],
)
def read_pages(
    output: tl.tensor,
    log_sums: tl.tensor,
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
    """What a block of rows sees of every ``splits``-th page, from the ``part``-th on: the mean of values in ``output``, and in ``log_sums``
    the logarithm, to base 2, of the sum of weights."""
    request, part = (tl.program_id(0) // splits).to(tl.int64), tl.program_id(0) % splits
    head, row = tl.program_id(1).to(tl.int64), tl.program_id(2) * block + tl.arange(0, block)
    column, offset = tl.arange(0, columns), tl.arange(0, page)
    in_rows, in_head = row < rows, (column < size)[None, :]
    token = request * tokens + tl.minimum(row // group, tokens - 1)
    row_position = tl.load(positions + token)
    asked = query + request * query_request + head * query_head + row[:, None] * query_row + column[None, :]
    q = tl.load(asked, mask=in_rows[:, None] & in_head, other=0.0)
    root = tl.load(newest + request) if tree else tl.max(row_position, 0)
    end = root + (nodes if tree else 1)
    begin = tl.maximum(tl.min(row_position, 0) - window + 1, 0) // page if window else 0
    words = (nodes + 63) // 64
    row_max = tl.full([block], -float("inf"), tl.float32)
    row_sum = tl.zeros([block], tl.float32)
    accumulated = tl.zeros([block, columns], tl.float32)
    for index in range(begin + part, (end - 1) // page + 1, splits):
        number = tl.load(table + request * width + index).to(tl.int64)
        position = index * page + offset
        cached = head * cache_head + (number * page + offset)[:, None] * cache_row + column[None, :]
        k = tl.load(keys + cached, mask=in_head, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if tree:
            node = index * page - root
            first = node >> 6
            shift = (node - first * 64).to(tl.uint64)
            low, high = word_of(paths + token * words, first, words), word_of(paths + token * words, first + 1, words)
            bits = (low >> shift) | ((high << 1) << (63 - shift))
            sees = ((bits[:, None] >> offset[None, :].to(tl.uint64)) & 1) != 0
        else:
            sees = position[None, :] <= row_position[:, None]
        if window:
            sees &= position[None, :] > row_position[:, None] - window
        scores = tl.where(sees, scores, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        base = tl.where(new_max == -float("inf"), 0.0, new_max)
        weights, kept = tl.exp2(scores - base[:, None]), tl.exp2(row_max - base)
        written = (position < end) & (number > 0)  # what is left there of others may not be finite
        v = tl.load(values + cached, mask=written[:, None] & in_head, other=0.0)
        row_sum = row_sum * kept + tl.sum(weights, 1)
        accumulated = accumulated * kept[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        row_max = new_max
    seen = row_sum > 0
    accumulated /= tl.where(seen, row_sum, 1.0)[:, None]
    line = (request * heads + head) * rows + row
    if split:
        line = line * splits + part
        tl.store(log_sums + line, tl.where(seen, row_max + tl.log2(tl.where(seen, row_sum, 1.0)), -float("inf")), mask=in_rows)
    tl.store(output + line[:, None] * size + column[None, :], accumulated.to(output.dtype.element_ty), mask=in_rows[:, None] & in_head)


@triton.jit(do_not_specialize=["splits"])  # type: ignore[untyped-decorator]
def join_splits(
    output: tl.tensor,
    parts: tl.tensor,
    log_sums: tl.tensor,
    splits: tl.tensor,
    size: tl.constexpr,
    columns: tl.constexpr,
    most: tl.constexpr,
) -> None:
    """A row of ``output`` [rows, size] from ``parts`` [rows, splits, size] and their ``log_sums``."""
    row, part, column = tl.program_id(0).to(tl.int64), tl.arange(0, most), tl.arange(0, columns)
    logs = tl.load(log_sums + row * splits + part, mask=part < splits, other=-float("inf"))
    highest = tl.max(logs, 0)
    weights = tl.exp2(logs - tl.where(highest == -float("inf"), 0.0, highest))
    inside = (part < splits)[:, None] & (column < size)[None, :]
    means = tl.load(parts + (row * splits + part)[:, None] * size + column[None, :], mask=inside, other=0.0)
    total = tl.sum(weights, 0)
    joined = tl.sum(means * weights[:, None], 0) / tl.where(total > 0, total, 1.0)
    tl.store(output + row * size + column, joined.to(output.dtype.element_ty), mask=column < size)


def splits_of(programs: int, pages: int, processors: int) -> int:
    """Among how many programs each of ``programs`` shares out up to so many pages, so that all of a GPU's processors have work: a power of
    two."""
    wanted = min(max(1, PROGRAMS * processors // programs), pages, MOST_SPLITS)
    return int(1 << (wanted.bit_length() - 1))


def block_of(rows: int, columns: int, itemsize: int) -> int:
    """Rows that a program takes of a query, of heads of ``columns`` numbers."""
    most = MOST_ROWS if columns * itemsize <= WIDE else MOST_ROWS // 2
    return int(min(max(LEAST_ROWS, triton.next_power_of_2(rows)), most))


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    positions: Tensor,
    newest: Tensor | None,
    paths: Tensor | None,
    nodes: int,
    window: int,
    page: int,
    scale: float,
    processors: int,
) -> Tensor:
    """See ``page_attention.attend_to_pages``; ``processors``: those of the GPU."""
    assert keys.stride() == values.stride()
    assert query.stride(3) == keys.stride(2) == 1
    n, heads, rows, size = query.shape
    tokens = positions.shape[1]
    columns = max(LEAST_ROWS, triton.next_power_of_2(size))
    block = block_of(rows, columns, query.itemsize)
    blocks = triton.cdiv(rows, block)
    splits = splits_of(n * heads * blocks, table.shape[1], processors)
    output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    parts = torch.empty(n, heads, rows, splits, size, dtype=torch.float32, device=query.device) if splits > 1 else output
    log_sums = torch.empty(n, heads, rows, splits, dtype=torch.float32, device=query.device) if splits > 1 else output
    read_pages[n * splits, heads, blocks](
        parts,
        log_sums,
        query,
        keys,
        values,
        table,
        positions,
        positions if newest is None else newest,
        positions if paths is None else paths,
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
        num_warps=4 if block * columns <= MOST_ROWS * 128 else 8,
    )
    if splits > 1:
        join_splits[(n * heads * rows,)](output, parts, log_sums, splits, size=size, columns=columns, most=MOST_SPLITS, num_warps=4)
    return output
