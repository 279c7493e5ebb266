"""Bookkeeping of cache rows. ``req_to_token`` [pool, length] says in which row of the cache each token of a request lies."""

import ctypes

import torch
from torch import Tensor


def assign_req_to_token_pool_cpu(
    req_pool_indices: Tensor, req_to_token: Tensor, start_offset: Tensor, end_offset: Tensor, out_cache_loc: Tensor, pool_len: int
) -> None:
    """Notes the rows ``out_cache_loc``, one request's after the other's, as those of each request's tokens from start to end."""
    rows = out_cache_loc.to(req_to_token.dtype).split((end_offset - start_offset).tolist())  # type: ignore[no-untyped-call]
    for request, start, new in zip(req_pool_indices.tolist(), start_offset.tolist(), rows, strict=False):
        req_to_token[request, start : start + len(new)] = new


def assign_extend_cache_locs_cpu(
    req_pool_indices: Tensor, req_to_token: Tensor, start_offset: Tensor, end_offset: Tensor, out_cache_loc: Tensor, pool_len: int
) -> None:
    """The opposite: the rows of each request's tokens from start to end into ``out_cache_loc``."""
    spans = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True)
    rows = torch.cat([req_to_token[request, start:end] for request, start, end in spans])
    out_cache_loc[: len(rows)] = rows.to(out_cache_loc.dtype)


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: Tensor, req_to_token: Tensor, seq_lens: Tensor, out_cache_loc: Tensor, pool_len: int, topk: int, num_steps: int
) -> None:
    """The ``topk * num_steps`` rows behind each request's tokens, where its drafts go."""
    ends = seq_lens + topk * num_steps
    assign_extend_cache_locs_cpu(req_pool_indices, req_to_token, seq_lens, ends, out_cache_loc, pool_len)


def build_draft_decode_metadata_cpu(
    req_to_token: Tensor, req_pool_indices: Tensor, seq_lens: Tensor, topk: int, num_steps: int, pool_len: int
) -> Tensor:
    """The rows [requests * topk, pool_len] of each draft branch: the request's, then its own ``num_steps`` of those behind them."""
    branches = torch.zeros(len(seq_lens) * topk, pool_len, dtype=req_to_token.dtype)
    for index, (request, length) in enumerate(zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)):
        for branch in range(topk):
            row, first = branches[index * topk + branch], length + branch * num_steps
            row[:length] = req_to_token[request, :length]
            row[length : length + num_steps] = req_to_token[request, first : first + num_steps]
    return branches


def fill_bonus_tokens_cpu(accept_tokens: Tensor, accept_lens: Tensor, bonus_tokens: Tensor, accept_stride: int) -> None:
    """The last accepted token of each request; ``accept_tokens`` has ``accept_stride`` places for each."""
    last = torch.arange(len(bonus_tokens)) * accept_stride + accept_lens.long() - 1
    bonus_tokens.copy_(accept_tokens.flatten()[last])


def fill_accept_out_cache_loc_cpu(accept_index: Tensor, out_cache_loc: Tensor, accept_out_cache_loc: Tensor) -> None:
    """The rows of the accepted tokens, packed; ``accept_index`` is -1 where there is none."""
    accepted = accept_index[accept_index > -1].long()
    accept_out_cache_loc[: len(accepted)] = out_cache_loc[accepted].to(accept_out_cache_loc.dtype)


def copy_all_layer_kv_cache_cpu(data_ptrs: Tensor, strides: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Copies rows of every buffer, given by address and bytes a row; all are read before one is written."""
    for base, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(base + row * stride, stride) for row in src_loc.tolist()]
        for row, content in zip(tgt_loc.tolist(), rows, strict=True):
            ctypes.memmove(base + row * stride, content, stride)
