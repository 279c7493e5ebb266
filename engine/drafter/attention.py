"""Attention of packed segments, each by itself: what a block-diagonal mask means, at the cost of the blocks alone."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

SEGMENTS = "longtail_segments"
Mask = Tensor | tuple[int, ...] | None


def attend(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Mask, **options: Any) -> tuple[Tensor, None]:
    """Causal attention within each of the successive segments whose lengths ``attention_mask`` gives; other masks are SDPA's own.

    ``query`` [B, heads, T, D], ``key`` and ``value`` [B, key heads, T, D] with T the sum of the lengths. Returns [B, T, heads, D].
    """
    if not isinstance(attention_mask, tuple):
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return output, None
    segments = zip(*(states.split(attention_mask, dim=2) for states in (query, key, value)), strict=True)
    parts = [scaled_dot_product_attention(*one, is_causal=True, scale=options["scaling"], enable_gqa=True) for one in segments]
    return torch.cat(parts, dim=2).transpose(1, 2).contiguous(), None


AttentionInterface.register(SEGMENTS, attend)
