"""A random policy of about 30,000 parameters, and random rows for it."""

import random
from collections.abc import Callable

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config

from engine.policy.training.training_row import TrainingRow

VOCABULARY = 61


@pytest.fixture
def make_policy() -> Callable[..., PreTrainedModel]:
    """``make_policy(seed, tied=...)``; equal seeds give equal weights."""

    def make(seed: int = 0, tied: bool = True) -> PreTrainedModel:
        torch.manual_seed(seed)
        config = Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            initializer_range=0.2,
            tie_word_embeddings=tied,
        )
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").float().eval()  # type: ignore[no-untyped-call]
        return model

    return make


@pytest.fixture
def make_rows() -> Callable[..., list[TrainingRow]]:
    """``make_rows(count, seed)``: prompts of 1-9 and responses of 1-60 tokens."""

    def make(count: int, seed: int = 0) -> list[TrainingRow]:
        draw = random.Random(seed)
        rows = []
        for _ in range(count):
            prompt, response = draw.randint(1, 9), draw.randint(1, 60)
            tokens = tuple(draw.randrange(VOCABULARY) for _ in range(prompt + response))
            rows.append(TrainingRow(tokens, prompt, draw.gauss(0, 1), tuple(draw.uniform(-6, 0) for _ in range(response))))
        return rows

    return make
