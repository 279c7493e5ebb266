"""Measures a drafter folder alone, with no run around it: what it brings on prompts of a task. Those of a generated one are fresh."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine.config import RolloutConfig, SpeculationConfig, SpotConfig, StrategyConfig
from engine.config.task import GENERATED, MathConfig, TaskConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.eagle3 import drafter_of
from engine.drafter.export import load_drafter_folder
from engine.drafter.finished_responses import FinishedResponses
from engine.drafter.kind import drafter_kind, weights_kind
from engine.drafter.model_card import base_model, write_figures
from engine.drafter.recipe import Recipe
from engine.drafter.spot_trainer import SpotTrainer
from engine.drafter.weight_files import drafter_files
from engine.errors import ConfigError
from engine.models.folder import read_facts
from engine.models.load import end_tokens, load_model, load_tokenizer, resolve
from engine.models.weights import ends
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.from_model import engine_from_model, fixed_strategy
from engine.tasks.registry import build_task

FRESH = 3 * 10**6  # of generated tasks: seeds of runs and of warm starts are far below
CHAIN = StrategyConfig(depth=6, verify=6)
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class DraftingResult:
    """``accept_length``: tokens that a target pass brings a request, its own included. ``acceptance[i]``: the share of first drafts
    at depth i + 1 that were accepted. ``target_passes`` that were counted, one a request."""

    accept_length: float
    acceptance: list[float]
    target_passes: int


@dataclass(frozen=True)
class DrafterMeasurement:
    """A target and what it is asked. ``sampling`` as in training: the acceptance of a drafter depends on it."""

    model: PreTrainedModel
    ends: frozenset[int]
    requests: Sequence[Request]
    sampling: Sampling

    def measure(self, weights: Weights, strategy: StrategyConfig, buffer: DataBuffer | None = None) -> DraftingResult:
        """Generates all responses with ``weights`` drafting by ``strategy`` throughout; ``buffer`` gets them with their features."""
        longest = max(len(request.prompt) for request in self.requests)
        engine = engine_from_model(
            self.model,
            self.ends,
            fixed_strategy(strategy),
            weights,
            weights_kind(weights),
            rollout=RolloutConfig(max_prompt_tokens=longest),
        )
        if buffer is None:
            engine.generate(self.requests, self.sampling)
        else:
            finished = FinishedResponses(buffer.limit, (request.id for request in self.requests))
            engine.generate(self.requests, self.sampling, keep=finished.keep)
            buffer.remember(0, finished.take())
        counts = engine.take_statistics()
        pairs = zip(counts.accepted_by_position, counts.drafted_by_position, strict=True)
        rates = [round(accepted / drafted, 4) for accepted, drafted in takewhile(lambda pair: pair[1], pairs)]
        passes = counts.speculative_requests
        return DraftingResult(round(counts.speculative_tokens / max(1, passes), 4), rates, passes)

    def agreement(self, weights: Weights, buffer: DataBuffer) -> float:
        """The share of positions where the most likely tokens of drafter and target are the same, given the target's own features."""
        drafter, entries = drafter_of(weights, self.model.config), [*buffer.mix(), *buffer.held_out(buffer.limit)]
        seen = SpotConfig(context=max((entry.positions for entry in entries), default=0))  # as in drafting: all
        trainer = SpotTrainer(drafter.to(self.model.device), buffer, seen, Recipe(drafter.kind))
        trainer.set_target(*ends(self.model))
        return trainer.evaluate(entries).agreement


def evaluate_folder(folder: Path, model: str | None, task: TaskConfig, prompts: int, sampling: Sampling) -> dict[str, Any]:
    """Accept length and acceptance by position of a chain of 6 and of the default tree, and the top-1 agreement of drafter and target.

    On at most ``prompts`` prompts, each once.
    ``model`` None is the one that the folder's card names. ModelError, ConfigError or DataError say what does not fit.
    """
    files = drafter_files(folder)
    base = model or base_model(folder)
    source = resolve(base)
    target = load_model(source, torch.float32).to("cuda" if torch.cuda.is_available() else "cpu")  # type: ignore[arg-type]
    weights = load_drafter_folder(folder, target.config, drafter_kind(folder))
    tokenizer = load_tokenizer(source)
    found = build_task(task, FRESH + sampling.seed, tokenizer).prompts(0, prompts)
    distinct = dict.fromkeys(prompt.tokens for prompt in found)  # a file with fewer rows begins anew
    requests = [Request(index, index, tokens) for index, tokens in enumerate(distinct)]
    prompt, response, context = max(len(request.prompt) for request in requests), sampling.max_new_tokens, read_facts(source).context
    if prompt + response > context:
        raise ConfigError(
            f"prompts of up to {prompt} tokens and responses of {response} exceed the {context} tokens that {base} can hold; "
            "lower --max-new-tokens"
        )
    bench = DrafterMeasurement(target, end_tokens(target, tokenizer), requests, sampling)
    buffer, tree = DataBuffer(2**31), SpeculationConfig().strategies[0]
    chain = bench.measure(weights, CHAIN, buffer)
    return {
        "drafter": str(folder),
        "sha256": sha256(b"".join(file.read_bytes() for file in files)).hexdigest(),
        "base_model": base,
        "task": task.name,
        "prompts": len(requests),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top1_agreement": round(bench.agreement(weights, buffer), 4),
        "chain": CHAIN.model_dump(exclude={"drafter"}) | asdict(chain),
        "tree": tree.model_dump(exclude={"drafter"}) | asdict(bench.measure(weights, tree)),
    }


def write_card(folder: Path, result: Mapping[str, Any]) -> None:
    """Puts the figures of the chain from ``evaluate_folder``'s ``result`` into the folder's card. ModelError if it has none of ours."""
    chain = result["chain"]
    measured = f"chains of {chain['depth']}, {measured_in(result)}"
    write_figures(folder, chain["accept_length"], chain["acceptance"], measured)


def measured_in(result: Mapping[str, Any]) -> str:
    """The prompts and the sampling of ``evaluate_folder``'s ``result``, in words."""
    cut = "" if result["top_p"] == 1 else f", top-p {result['top_p']:g}"
    return f"{result['prompts']} prompts of {result['task']}, temperature {result['temperature']:g}{cut}"


def task_of(name: str) -> TaskConfig:
    """A generated task, or maths questions from the JSONL or parquet file ``name``."""
    if name in GENERATED:
        return GENERATED[name]()
    if not Path(name).is_file():
        raise ConfigError(f"task {name}: neither {' nor '.join(GENERATED)} nor a file of maths questions (JSONL or parquet)")
    return MathConfig(path=Path(name))
