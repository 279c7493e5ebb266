"""A response has the same bits, log-probabilities included, whatever ran beside it, whoever drafted, and in which order."""

import random
from typing import Any

import pytest
import torch
from native_cases import (
    NGRAMS,
    TREES,
    RandomTuner,
    make_engine,
    make_guessable,
    make_requests,
    make_target,
    strategies,
    with_mkl,
    with_random_tuner,
)
from sizes import first
from test_native_model import logits_of, runner_of
from torch.nn import functional as F
from transformers import PreTrainedModel

from engine.rollout.interface import Completion, PartialResponse, Request, Sampling
from engine.rollout.native import linear

pytestmark = with_mkl
SHAPES = ((7, 1, 7), *((tree.depth, tree.top_k, tree.verify) for tree in TREES))
LONG = 530
"""Tokens: beyond a block of attention, and its half."""
MODELS: dict[str, dict[str, Any]] = {
    "qwen2": {"hidden": 48, "num_attention_heads": 6, "num_key_value_heads": 2},
    "qwen3": {"num_attention_heads": 14, "num_key_value_heads": 2, "head_dim": 32},
    "llama": {"hidden": 80, "num_attention_heads": 5, "num_key_value_heads": 5, "vocabulary": 1001},
}
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CASES = [
    (family, DTYPES[(place + turn) % 3], 1 + (place + turn // 3 + turn % 3) % 2) for turn in range(6) for place, family in enumerate(MODELS)
]
"""Every family with every data type and number of threads; the first three have each family and each type once, and both numbers."""
Bits = tuple[tuple[int, ...], tuple[float, ...]]


def make_model(family: str) -> tuple[PreTrainedModel, dict[str, torch.Tensor]]:
    model = make_target(family, max_position_embeddings=1024, **{"tie_word_embeddings": False} | MODELS[family])
    return model, make_guessable(model)


def bits(completions: list[Completion]) -> dict[int, Bits]:
    return {completion.request.id: (completion.tokens, completion.logprobs) for completion in completions}


@pytest.mark.parametrize(("family", "dtype", "threads"), first(3, CASES), indirect=["threads"], ids=str)
@pytest.mark.usefixtures("threads")
def test_a_response_has_the_bits_it_has_alone(family: str, dtype: torch.dtype) -> None:
    model, drafter = make_model(family)
    vocabulary = model.config.vocab_size
    requests = [*make_requests(2, vocabulary, seed=1), *(Request(i, i, (i,)) for i in range(2, 5))]
    sampling = Sampling(0.9, 0.95, max_new_tokens=LONG, seed=3)
    alone = bits(make_engine(model, slots=1, dtype=dtype).generate(requests[:2], sampling))
    engine = make_engine(model, drafter, strategies(*SHAPES, suffix=True), slots=4, dtype=dtype)
    tuner = with_random_tuner(engine, RandomTuner(7, more=(*TREES, *TREES, *NGRAMS)))
    shuffled = random.Random(1).sample(requests, len(requests))
    together = bits(engine.generate(shuffled, sampling))
    assert {request: together[request] for request in alone} == alone
    accepted = [max(drafts) for strategy, drafts in tuner.steps if strategy in TREES]
    assert max(accepted) >= 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_it_has_them_if_a_part_of_it_was_generated_before(dtype: torch.dtype) -> None:
    """So prompts, which are read at once, have the bits of tokens that were generated one by one."""
    model, _ = make_model("llama")
    engine = make_engine(model, dtype=dtype)
    request, sampling = Request(0, 0, (1, 2, 3)), Sampling(max_new_tokens=LONG)
    (whole,) = engine.generate([request], sampling)
    for count in (1, 40, 300, LONG - 1):
        begun = PartialResponse(whole.tokens[:count], whole.logprobs[:count], ((0, count),))
        (going_on,) = engine.generate([Request(0, 0, request.prompt, begun)], sampling)
        assert bits([going_on]) == bits([whole])


@pytest.mark.parametrize(
    "shape",
    [
        {"intermediate_size": 1000},  # torch shares out the activation of so many numbers among threads
        {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32},
        {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 256},
    ],
    ids=["wide activation", "one key head", "wide heads"],
)
@pytest.mark.usefixtures("threads")
@torch.inference_mode()
def test_logits_have_the_same_bits_read_at_once_or_one_by_one(shape: dict[str, Any]) -> None:
    model = make_target("qwen3", max_position_embeddings=1024, **shape)
    runner = runner_of(model)
    tokens = torch.randint(48, (3, 300), generator=torch.Generator().manual_seed(0))
    at_once = logits_of(runner, tokens, [300])
    assert torch.equal(logits_of(runner, tokens, [65, *[5] * 6, *[1] * 60, 13, 132]), at_once)
    assert torch.equal(logits_of(runner, tokens[1:2], [33, 33, *[1] * 100, 134]), at_once[1:2])


@torch.inference_mode()
def test_with_products_of_torch_they_would_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linear.PACKED, torch.float32, lambda weight, bias: lambda x: F.linear(x, weight, bias))
    runner = runner_of(make_target("llama", hidden=160))
    tokens = torch.randint(48, (3, 40), generator=torch.Generator().manual_seed(0))
    assert not torch.equal(logits_of(runner, tokens[:1], [1] * 40), logits_of(runner, tokens, [40])[:1])
