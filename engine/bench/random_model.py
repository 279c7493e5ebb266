"""Models with random weights and a real model's shape, for what does not depend on what weights say."""

from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config

from engine.planner.model_shape import Shape


def random_model(sizes: Shape, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """In evaluation mode, made where it stays."""
    with device:
        made: Any = AutoModelForCausalLM.from_config(qwen2_config(sizes), dtype=dtype)  # type: ignore[no-untyped-call]
    model: PreTrainedModel = made.eval()
    return model


def qwen2_config(sizes: Shape) -> Qwen2Config:
    """Of a Qwen2 with these sizes."""
    return Qwen2Config(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.intermediate,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        tie_word_embeddings=sizes.tied,
    )
