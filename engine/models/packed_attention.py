"""Attention over packed rows, each segment by itself, for the learner and the drafter's training; and that of a training-time test, in
which a drafter sees what it sees in serving."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from engine.models.past_attention import attend_past
from engine.models.varlen_attention import Parts, attend_varlen, takes

SEGMENTS = "longtail_segments"
FEWER = 8
"""Where a prefix has so many times fewer positions than its continuation, it costs less to give it queries, of which nobody looks at the
result, than a mask, with which a kernel computes what it hides."""
Segments = tuple[int | tuple[int, ...], ...]
"""Lengths of what stands end to end and does not see each other. In place of one length, those of a prefix and its continuations: each of
them sees the prefix and itself."""
Mask = Tensor | Segments | None
KeysAndValues = tuple[Tensor, Tensor]
"""[B, key heads, T, D] each."""
PassHistory = list[KeysAndValues]
"""Those of the passes of a training-time test so far; the first saw the target's features."""
Past = Sequence[KeysAndValues | None]
"""Of each segment, those that it sees before its own, without gradients."""


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask,
    history: PassHistory | None = None,
    past: Past | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Causal attention within each of the successive segments that ``attention_mask`` gives, and within the layer's sliding window, if
    it has one; other masks are SDPA's own.

    ``query`` [B, heads, T, D], ``key`` and ``value`` [B, key heads, T, D] with T the sum of the lengths. Returns [B, T, heads, D]. With
    a ``history`` that is a pass of a training-time test, which adds itself to it; passes after the first take lengths or None only, and
    so does a ``past``.
    """
    passes = [] if history is None else history
    passes.append((key, value))
    if past or len(passes) > 1:
        assert not isinstance(attention_mask, Tensor)
        drafts = [length for length in attention_mask or (query.shape[2],) if isinstance(length, int)]
        return _draft(query, passes, drafts, options["scaling"], past or [None] * len(drafts)).transpose(1, 2).contiguous(), None
    if not isinstance(attention_mask, tuple):
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return output, None
    parts = _parts(attention_mask)
    if takes(query, value):
        return attend_varlen(query, key, value, parts, options["scaling"], options.get("sliding_window")), None
    lengths, seen = zip(*parts, strict=True)
    queries, keys, values = (torch.split(states, list(lengths), 2) for states in (query, key, value))
    outputs = []
    for own, sees in zip(queries, seen, strict=True):
        seen_keys, seen_values = (_joined([states[part] for part in sees]) for states in (keys, values))
        outputs.append(_causal(own, seen_keys, seen_values, options["scaling"], options.get("sliding_window")))
    return torch.cat(outputs, dim=2).transpose(1, 2).contiguous(), None


def _parts(segments: Segments) -> Parts:
    """The length of each part, and which parts it sees: itself, and before that its prefix, if it has one."""
    parts: list[tuple[int, tuple[int, ...]]] = []
    for segment in segments:
        prefix, *continuations = segment if isinstance(segment, tuple) else (segment,)
        first = len(parts)
        parts.append((prefix, (first,)))
        parts += [(length, (first, first + place)) for place, length in enumerate(continuations, 1)]
    return tuple(parts)


def _joined(parts: list[Tensor]) -> Tensor:
    """Without a copy where there is but one: so it is for all that share no prefix."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, 2)


def _causal(query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None) -> Tensor:
    """The queries are of the last positions of ``key``. Each sees itself and all before it, or the last ``window`` of them."""
    new, length = query.shape[2], key.shape[2]
    if (window is None or length <= window) and new >= FEWER * (length - new):
        query = pad(query, (0, 0, length - new, 0))
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=True)[:, :, -new:]
    near = torch.ones(new, length, dtype=torch.bool, device=query.device).tril(length - new)
    if window is not None:
        near = near.triu(length - new + 1 - window)
    return scaled_dot_product_attention(query, key, value, near, scale=scaling, enable_gqa=True)


def _draft(query: Tensor, history: PassHistory, lengths: list[int], scaling: float, past: Past) -> Tensor:
    """Attention [B, heads, T, D] of the newest pass of ``history``, the k-th.

    There position t is the k-th token of a draft. It sees the first pass's keys up to t - k + 1, where the draft began, and all of the
    ``past``, and then one of each later pass: of the second at t - k + 2, ..., of the k-th at t. The first k - 1 positions of a segment
    get finite nonsense.
    """
    (true_keys, true_values), *drafted = history
    query = torch.unflatten(query, 1, (true_keys.shape[1], -1))  # the heads that share a key head
    ages = range(len(drafted) - 1, -1, -1)
    band = [(query * keys.roll(age, 2)[:, :, None]).sum(-1) for age, (keys, _) in zip(ages, drafted, strict=True)]
    own = torch.stack(band, -1) if band else query[..., :0]
    segments = (torch.split(each, lengths, dim) for each, dim in ((query, 3), (own, 3), (true_keys, 2), (true_values, 2)))
    parts = [_drafted(q, o, k, v, before, scaling) for q, o, k, v, before in zip(*segments, past, strict=True)]
    output, shares = (torch.cat(each, 3) for each in zip(*parts, strict=True))
    for weight, age, (_, values) in zip(shares.unbind(-1), ages, drafted, strict=True):
        output = output + weight[..., None] * values.roll(age, 2)[:, :, None]
    return output.flatten(1, 2)


def _drafted(
    queries: Tensor, own: Tensor, keys: Tensor, values: Tensor, past: KeysAndValues | None, scaling: float
) -> tuple[Tensor, Tensor]:
    """Of one segment with queries [B, key heads, G, T, D]: what they take of the first pass's values and of the past, in that shape, and
    the shares of the k - 1 later passes, whose scores are ``own`` [B, key heads, G, T, k - 1]. The past counts as one key more."""
    shape, length, later_passes = queries.shape[2:4], keys.shape[2], own.shape[-1]
    rows = queries.flatten(2, 3)
    later = torch.ones(length, length, dtype=torch.bool, device=queries.device).triu(1 - later_passes)
    scores = [torch.unflatten(rows @ keys.mT, 2, shape).masked_fill(later, -torch.inf), own]
    before = None
    if past is not None:
        before, mass = attend_past(rows, *past, scaling)
        scores.append(torch.unflatten(mass, 2, shape)[..., None] / scaling)
    shares = torch.cat(scores, -1).mul(scaling).softmax(-1)
    mixed = torch.unflatten(shares[..., :length].flatten(2, 3) @ values, 2, shape)
    if before is not None:
        mixed = mixed + shares[..., -1:] * torch.unflatten(before, 2, shape)
    return mixed, shares[..., length : length + later_passes]


def keys_and_values(attention: nn.Module, inputs: Tensor, rotary: tuple[Tensor, Tensor]) -> KeysAndValues:
    """Those that ``attention``, a llama's, qwen2's or qwen3's, makes of ``inputs`` [B, T, ..]; ``rotary``: cosines and sines."""
    layer: Any = attention
    shape = (*inputs.shape[:-1], -1, layer.head_dim)
    key, value = (project(inputs).view(shape).transpose(1, 2) for project in (layer.k_proj, layer.v_proj))
    if hasattr(layer, "k_norm"):
        key = layer.k_norm(key)
    return apply_rotary_pos_emb(key, key, *rotary)[1], value


AttentionInterface.register(SEGMENTS, attend)
