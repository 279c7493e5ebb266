"""Attention over packed rows, each segment by itself, for the learner and the drafter's training; and that of a training-time test, in
which a drafter sees what it sees in serving."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

SEGMENTS = "longtail_segments"
Segments = tuple[int | tuple[int, ...], ...]
"""Lengths of what stands end to end and does not see each other. In place of one length, those of a prefix and its continuations: each of
them sees the prefix and itself."""
Mask = Tensor | Segments | None
PassHistory = list[tuple[Tensor, Tensor]]
"""Keys and values [B, heads, T, D] of the passes of a training-time test so far; the first saw the target's features."""


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Mask, history: PassHistory | None = None, **options: Any
) -> tuple[Tensor, None]:
    """Causal attention within each of the successive segments that ``attention_mask`` gives, and within the layer's sliding window, if
    it has one; other masks are SDPA's own.

    ``query`` [B, heads, T, D], ``key`` and ``value`` [B, key heads, T, D] with T the sum of the lengths. Returns [B, T, heads, D]. With
    a ``history`` that is a pass of a training-time test, which adds itself to it; passes after the first take lengths or None only.
    """
    if history is not None:
        groups = query.shape[1] // key.shape[1]
        history.append((repeat_kv(key, groups), repeat_kv(value, groups)))
        if len(history) > 1:
            assert not isinstance(attention_mask, Tensor)
            drafts = [length for length in attention_mask or (query.shape[2],) if isinstance(length, int)]
            return _draft(query, history, drafts, options["scaling"]).transpose(1, 2).contiguous(), None
    if not isinstance(attention_mask, tuple):
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return output, None
    lengths, seen = zip(*_parts(attention_mask), strict=True)
    queries, keys, values = (torch.split(states, list(lengths), 2) for states in (query, key, value))
    outputs = []
    for own, parts in zip(queries, seen, strict=True):
        seen_keys, seen_values = (_joined([states[part] for part in parts]) for states in (keys, values))
        outputs.append(_causal(own, seen_keys, seen_values, options["scaling"], options.get("sliding_window")))
    return torch.cat(outputs, dim=2).transpose(1, 2).contiguous(), None


def _parts(segments: Segments) -> list[tuple[int, tuple[int, ...]]]:
    """The length of each part, and which parts it sees: itself, and before that its prefix, if it has one."""
    parts: list[tuple[int, tuple[int, ...]]] = []
    for segment in segments:
        prefix, *continuations = segment if isinstance(segment, tuple) else (segment,)
        first = len(parts)
        parts.append((prefix, (first,)))
        parts += [(length, (first, first + place)) for place, length in enumerate(continuations, 1)]
    return parts


def _joined(parts: list[Tensor]) -> Tensor:
    """Without a copy where there is but one: so it is for all that share no prefix."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, 2)


def _causal(query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None) -> Tensor:
    """The queries are of the last positions of ``key``. Each sees itself and all before it, or the last ``window`` of them."""
    new, length = query.shape[2], key.shape[2]
    if new == length and (window is None or length <= window):
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=True)
    near = torch.ones(new, length, dtype=torch.bool, device=query.device).tril(length - new)
    if window is not None:
        near = near.triu(length - new + 1 - window)
    return scaled_dot_product_attention(query, key, value, near, scale=scaling, enable_gqa=True)


def _draft(query: Tensor, history: PassHistory, lengths: list[int], scaling: float) -> Tensor:
    """Attention [B, heads, T, D] of the newest pass of ``history``, the k-th.

    There position t is the k-th token of a draft. It sees the first pass's keys up to t - k + 1, where the draft began, and then one of
    each later pass: of the second at t - k + 2, ..., of the k-th at t. The first k - 1 positions of a segment get finite nonsense.
    """
    (true_keys, true_values), *drafted = history
    ages = range(len(drafted) - 1, -1, -1)
    band = torch.stack([(query * keys.roll(age, 2)).sum(-1) for age, (keys, _) in zip(ages, drafted, strict=True)], -1)
    mixed, weights = [], []
    segments = (torch.split(each, lengths, 2) for each in (query, band, true_keys, true_values))
    for queries, own, keys, values in zip(*segments, strict=True):
        length = keys.shape[2]
        later = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1 - len(drafted))
        seen = (queries @ keys.mT).masked_fill(later, -torch.inf)
        shares = torch.cat((seen, own), -1).mul(scaling).softmax(-1)
        mixed.append(shares[..., :length] @ values)
        weights.append(shares[..., length:])
    output, shares = torch.cat(mixed, 2), torch.cat(weights, 2)
    for weight, age, (_, values) in zip(torch.split(shares, 1, -1), ages, drafted, strict=True):
        output = output + weight * values.roll(age, 2)
    return output


AttentionInterface.register(SEGMENTS, attend)
