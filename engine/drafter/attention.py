"""Attention of a training-time test: what the drafter sees in training is what it sees when it drafts (HASS, EAGLE-3)."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

NAME = "longtail_draft"
History = list[tuple[Tensor, Tensor]]
"""Keys and values [B, heads, T, head_dim] of the passes of a training-time test, the first on true features."""


def draft_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    history: History | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of pass k of a training-time test; ``history`` holds the passes before, and gets this one.

    Position t of pass k is the k-th token of a draft: it sees the first pass's keys up to t - k + 1, where the draft began, and
    after that one key of each later pass: t - k + 2 of the second, ..., t of the k-th. Positions that have no beginning in their
    segment get finite nonsense. The first pass, or without a history, is ordinary attention under ``attention_mask``.
    """
    if history is None or not history:
        if history is not None:
            history.append(_for_each_head(module, key, value))
        output: Tensor = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)[0]
        return output, None
    assert attention_mask is not None
    history.append(_for_each_head(module, key, value))
    (true_keys, true_values), *drafted = history
    ages = range(len(drafted) - 1, -1, -1)
    seen = (query @ true_keys.transpose(-1, -2)).masked_fill(~attention_mask.roll(len(drafted), -2), -torch.inf)
    band = [(query * keys.roll(age, 2)).sum(-1, keepdim=True) for age, (keys, _) in zip(ages, drafted, strict=True)]
    weights = torch.cat((seen, *band), -1).mul(scaling or query.shape[-1] ** -0.5).softmax(-1)
    true_weights, *own_weights = weights.split([seen.shape[-1], *[1] * len(band)], -1)
    mixed = true_weights @ true_values
    for weight, age, (_, values) in zip(own_weights, ages, drafted, strict=True):
        mixed = mixed + weight * values.roll(age, 2)
    return mixed.transpose(1, 2).contiguous(), None


def _for_each_head(module: nn.Module, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    groups = int(module.num_key_value_groups)  # type: ignore[arg-type]
    return repeat_kv(key, groups), repeat_kv(value, groups)


AttentionInterface.register(NAME, draft_attention)
