"""``bench equality``: a response has the same bits whatever drafts it, in whatever batch, beside whatever, and in which order.

Plain decoding in batches of one size, against a strategy that is drawn anew at every decode step (chains, trees, n-grams or none), in
batches of another size and another order. Responses run on to their limit, past end tokens.
"""

import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from engine.bench.testbed import machine
from engine.config import RolloutConfig, SpeculationConfig
from engine.config.task import CountdownConfig, WordProblemsConfig
from engine.drafter.export import load_drafter_folder
from engine.errors import ConfigError
from engine.models.load import load_model, load_tokenizer, resolve, resolve_drafter
from engine.rollout.interface import Completion, Request, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.rollout.native.from_model import engine_from_model
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.fixed import FixedTuner
from engine.tasks.registry import build_task

MODELS: dict[str, CountdownConfig | WordProblemsConfig] = {
    "tiny": CountdownConfig(four_numbers=0.5),
    "smollm2-135m": WordProblemsConfig(two_steps=0.5),
}
TYPES = (torch.float32, torch.float16)
RESPONSES, TOKENS, SIBLINGS = 1000, 200, 8
PLAIN_BATCH, BATCH = 64, 48


class RandomTuner(FixedTuner):
    """Another strategy at every step. ``used``: steps of each kind of drafts; ``accepted``: drafts that were."""

    def __init__(self, strategies: Sequence[Strategy], seed: int) -> None:
        super().__init__(OFF)
        self._strategies, self._random = strategies, random.Random(seed)
        self.used: Counter[str] = Counter()
        self.accepted = 0

    def select(self, context: Context) -> Strategy:
        return self._random.choice([each for each in self._strategies if each.drafter in context.drafters])

    def record(self, strategy: Strategy, context: Context, accepted: Sequence[int], elapsed: float) -> None:
        super().record(strategy, context, accepted, elapsed)
        self.used["tree" if strategy.top_k > 1 else strategy.drafter] += 1
        self.accepted += sum(accepted)


def run(quick: bool, model: str, drafter: Path | None = None) -> dict[str, Any]:
    """Of each data type how many responses ``differ`` in a token, or in a bit of a log-probability. ``drafter``: a folder, for a model
    that has no built-in one."""
    if model not in MODELS:
        raise ConfigError(f"--model: equality runs {' or '.join(MODELS)}, not {model}")
    folder = drafter or resolve_drafter("builtin", model)
    if folder is None:
        raise ConfigError(f"--drafter: {model} has no drafter; give the folder of one, as longtail drafter train makes it")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    responses, tokens = (2 * SIBLINGS, 24) if quick else (RESPONSES, TOKENS)
    loaded = load_model(resolve(model), torch.float32)
    requests = _requests(model, responses)
    sampling = Sampling(max_new_tokens=tokens, seed=1)
    found = {str(dtype).removeprefix("torch."): _compared(loaded, folder, dtype, requests, sampling) for dtype in TYPES}
    return {"model": model, "facts": machine(), "responses": responses, "tokens": tokens, "types": found}


def _requests(model: str, count: int) -> list[Request]:
    prompts = build_task(MODELS[model], 1, load_tokenizer(resolve(model))).prompts(0, -(-count // SIBLINGS))
    return [Request(index, index // SIBLINGS, prompts[index // SIBLINGS].tokens) for index in range(count)]


def _compared(model: PreTrainedModel, drafter: Path, dtype: torch.dtype, requests: list[Request], sampling: Sampling) -> dict[str, Any]:
    began = time.perf_counter()
    plain = engine_from_model(model, frozenset(), None, rollout=RolloutConfig(max_batch=PLAIN_BATCH), dtype=dtype)
    expected = _by_request(plain.generate(requests, sampling))
    between = time.perf_counter()
    engine, tuner = _speculating(model, drafter, dtype)
    found = _by_request(engine.generate(random.Random(2).sample(requests, len(requests)), sampling))
    print(f"{dtype}: {between - began:.0f} s plain, {time.perf_counter() - between:.0f} s with drafts", flush=True)
    return {
        "differ": sum(found[request] != bits for request, bits in expected.items()),
        "steps": dict(sorted(tuner.used.items())),
        "accepted_share": round(tuner.accepted / sum(len(tokens) for tokens, _ in found.values()), 3),
    }


def _speculating(model: PreTrainedModel, drafter: Path, dtype: torch.dtype) -> tuple[NativeEngine, RandomTuner]:
    """Whose tuner is a random one, of the usual strategies and none."""
    config = SpeculationConfig(threshold=2**20)
    weights = load_drafter_folder(drafter, model.config)
    engine = engine_from_model(model, frozenset(), config, weights, rollout=RolloutConfig(max_batch=BATCH), dtype=dtype)
    assert engine.speculator
    tuner = RandomTuner([OFF, *(Strategy.of(each) for each in config.strategies)], seed=3)
    engine.speculator.tuner = tuner
    return engine, tuner


def _by_request(completions: Sequence[Completion]) -> dict[int, tuple[tuple[int, ...], tuple[float, ...]]]:
    return {completion.request.id: (completion.tokens, completion.logprobs) for completion in completions}
