"""Attention over the paged cache, and the hash that seeds sampling, registered as SGLang's CPU operators."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

LIBRARY = torch.library.Library("sgl_kernel", "FRAGMENT")  # type: ignore[no-untyped-call]
EXTEND = (
    "extend_attention_cpu(Tensor q, Tensor? k, Tensor? v, Tensor(a!) o, Tensor k_buffer, Tensor v_buffer, float k_scale, float v_scale, "
    "Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, Tensor extend_seq_lens, Tensor extend_start_loc, int max_len_extend, "
    "float scaling, float logit_cap, bool is_cross_attn, int sliding_window, Tensor? encoder_lens, Tensor? sinks, Tensor? tree_mask, "
    "bool is_causal) -> ()"
)
DECODE = (
    "decode_attention_cpu(Tensor q, Tensor(a!) k_buffer, Tensor(b!) v_buffer, float k_scale, float v_scale, Tensor(c!) o, Tensor? k, "
    "Tensor? v, Tensor loc, Tensor attn_logits, Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, float scaling, "
    "float logit_cap, bool is_cross_attn, int sliding_window, Tensor? encoder_lens, Tensor? sinks) -> ()"
)
MURMUR = "murmur_hash32_cpu(Tensor seed, Tensor positions, Tensor col_indices) -> Tensor"
LOW = 0xFFFFFFFF


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scaling: float) -> Tensor:
    """[B, T, Hq, D] of q [B, T, Hq, D], k and v [B, L, Hk, D], and mask [B, T, L], true where attention is allowed."""
    repeats = q.shape[2] // k.shape[2]
    queries, keys, values = (each.transpose(1, 2) for each in (q, k.repeat_interleave(repeats, 2), v.repeat_interleave(repeats, 2)))
    return scaled_dot_product_attention(queries, keys, values, attn_mask=mask[:, None], scale=scaling).transpose(1, 2)


def decode_attention_cpu(q: Tensor, k_buffer: Tensor, v_buffer: Tensor, *rest: Any) -> None:
    """One token [B, Hq, D] of each request, over all its cached tokens; writes the new keys and values first."""
    _, _, o, k, v, loc, _, req_to_token, req_pool_indices, seq_lens, scaling, *_ = rest
    if k is not None and v is not None:
        k_buffer[loc] = k.view(-1, *k_buffer.shape[1:]).to(k_buffer.dtype)
        v_buffer[loc] = v.view(-1, *v_buffer.shape[1:]).to(v_buffer.dtype)
    places = torch.arange(int(seq_lens.max()))
    known = places < seq_lens[:, None]
    rows = req_to_token[req_pool_indices][:, : len(places)].long().where(known, 0)
    o.copy_(attend(q[:, None], k_buffer[rows], v_buffer[rows], known[:, None], scaling)[:, 0])


def extend_attention_cpu(q: Tensor, k: Tensor | None, v: Tensor | None, o: Tensor, k_buffer: Tensor, v_buffer: Tensor, *rest: Any) -> None:
    """The newest ``extend_seq_lens`` tokens of each request, packed in ``q`` [N, Hq, D], over all its cached tokens.

    Among themselves the new tokens see what ``tree_mask`` says (packed [n, n] of each request), or what came before.
    """
    _, _, req_to_token, req_pool_indices, seq_lens, extend_seq_lens, starts, _, scaling, *others = rest
    places, tokens = torch.arange(int(seq_lens.max())), torch.arange(int(extend_seq_lens.max()))
    known, new = places < seq_lens[:, None], tokens < extend_seq_lens[:, None]
    before = seq_lens - extend_seq_lens
    seen = (places <= (before[:, None] + tokens)[:, :, None]) & known[:, None]
    if others[5] is not None:
        masks = others[5].flatten()[: int((extend_seq_lens**2).sum())].split((extend_seq_lens**2).tolist())
        for request, (mask, first, count) in enumerate(zip(masks, before.tolist(), extend_seq_lens.tolist(), strict=True)):
            seen[request, :count, first : first + count] = mask.view(count, count)
    rows = req_to_token[req_pool_indices][:, : len(places)].long().where(known, 0)
    packed = starts[:, None] + tokens
    output = attend(q[packed.where(new, 0)], k_buffer[rows], v_buffer[rows], seen, scaling)
    o[packed[new]] = output[new]


def murmur_hash32_cpu(seed: Tensor, positions: Tensor, col_indices: Tensor) -> Tensor:
    """MurmurHash3 (32 bits) of the 16 bytes (seed, position, column): [n, m] uint32 of seed [n], positions [n] and col_indices [m]."""
    seeds, places = seed.view(torch.int64), positions.view(torch.int64) if positions.dtype == torch.uint64 else positions.long()
    hashed = torch.zeros(len(seed), 1, dtype=torch.int64)
    for block in (seeds & LOW, (seeds >> 32) & LOW, places & LOW):
        hashed = _mix(hashed, block[:, None])
    hashed = _mix(hashed, col_indices.long()[None] & LOW) ^ 16
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashed = (hashed ^ (hashed >> shift)) * factor & LOW
    return (hashed ^ (hashed >> 16)).to(torch.uint32)


def _mix(hashed: Tensor, block: Tensor) -> Tensor:
    block = _rotate(block * 0xCC9E2D51 & LOW, 15) * 0x1B873593 & LOW
    return _rotate(hashed ^ block, 13) * 5 + 0xE6546B64 & LOW


def _rotate(values: Tensor, bits: int) -> Tensor:
    return (values << bits | values >> (32 - bits)) & LOW


for schema, function in ((EXTEND, extend_attention_cpu), (DECODE, decode_attention_cpu), (MURMUR, murmur_hash32_cpu)):
    LIBRARY.define(schema)  # type: ignore[no-untyped-call]
    LIBRARY.impl(function.__name__, function, "CPU")  # type: ignore[no-untyped-call]
