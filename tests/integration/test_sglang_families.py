"""Causal language models that our own engine does not know, in SGLang."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from models_for_tests import Family, make_random_model
from sglang_cases import TESTS, needs_sglang, run, sglang_engine, weights_of
from sizes import ALL, only_with_all
from transformers import PreTrainedModel

from engine.bench.bare_sglang import STAND_IN
from engine.config import RolloutConfig
from engine.errors import ModelError
from engine.events import StepFinished
from engine.models.load import load_model
from engine.rollout.interface import Request, Sampling

pytestmark = needs_sglang
ROLLOUT = RolloutConfig(max_batch=4, max_prompt_tokens=32, max_new_tokens=16)
GREEDY = Sampling(temperature=0, max_new_tokens=16)
REQUESTS = [Request(index, index, tuple(range(3 + index, 19 + index))) for index in range(4)]
OTHERS: list[Family] = ["gpt2", "olmo2", "opt", "stablelm", "mistral", "gemma3_text"]


@torch.no_grad()
def expected(model: PreTrainedModel) -> list[tuple[int, ...]]:
    """By transformers, behind an end token, too."""
    tokens = torch.tensor([request.prompt for request in REQUESTS])
    for _ in range(GREEDY.max_new_tokens):
        tokens = torch.cat((tokens, model(input_ids=tokens).logits[:, -1:].argmax(-1)), 1)
    return [tuple(row) for row in tokens[:, len(REQUESTS[0].prompt) :].tolist()]


@pytest.mark.parametrize("family", OTHERS if ALL else OTHERS[:1])
def test_it_decodes_what_transformers_does_and_takes_new_weights(tmp_path: Path, family: Family) -> None:
    folder = make_random_model(tmp_path, family, tied=family != "stablelm")
    model = load_model(folder, torch.float32)
    with sglang_engine(folder, model, ROLLOUT) as engine:
        for version in range(2):
            assert [completion.tokens for completion in engine.generate(REQUESTS, GREEDY)] == expected(model)
            with torch.no_grad():
                for weight in model.parameters():
                    weight.add_(0.1 * torch.randn_like(weight))
            engine.load_target(weights_of(model), version + 1)


UNUSED: list[tuple[Family, str]] = [("stablelm", "lm_head.weight"), ("qwen3_moe", "mlp.experts.w13_weight"), ("phi", "lm_head.bias")]


@pytest.mark.parametrize(("family", "weight"), UNUSED if ALL else UNUSED[:1])
def test_weights_that_it_would_not_use_are_refused(tmp_path: Path, family: Family, weight: str) -> None:
    folder = make_random_model(tmp_path, family)
    refused = pytest.raises(ModelError, match=rf"SGLang does not use .*{weight} of a {family} model as it is in training")
    with refused, sglang_engine(folder, load_model(folder, torch.float32), ROLLOUT):
        pass


@only_with_all
def test_a_run_with_its_ngrams_trains_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that no learned drafter could be for: it has no such layers."""
    monkeypatch.setitem(STAND_IN, "PYTHONPATH", f"{STAND_IN['PYTHONPATH']}{os.pathsep}{TESTS}")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "one two three"}\n{"question": "tell me a story"}\n')
    config: dict[str, Any] = {
        "model": {"path": str(make_random_model(tmp_path / "model", "gpt2"))},
        "task": {"name": "function", "path": str(rows), "prompt": "{question}", "function": "faults.even_task:reward"},
        "algorithm": {"steps": 2, "prompts_per_step": 2, "group_size": 3, "learning_rate": 3e-3, "mask_truncated": False},
        "rollout": {"engine": "sglang", "max_prompt_tokens": 32, "max_new_tokens": 32, "max_batch": 8},
        "speculation": {"strategies": [{"drafter": "ngram", "depth": 3, "verify": 3}]},
        "drafter": {"spot": {"enabled": False}},
        "cluster": {"device": "cpu", "workers": 1},
    }
    steps = [event for event in run(config, tmp_path) if isinstance(event, StepFinished)]
    assert [event.step for event in steps] == [0, 1]
    assert all(event.metrics["logprob_gap"] < 1e-5 for event in steps)
    assert all(event.metrics["gradient_norm"] > 0 for event in steps)
