"""What benchmarks share: engines on one model with a given strategy, prompts, and the facts of the machine."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from engine.bench.provenance import processor
from engine.config import RolloutConfig, SpeculationConfig, StrategyConfig
from engine.config.task import CountdownConfig
from engine.drafter.export import load_drafter_folder
from engine.drafter.kind import DrafterKind
from engine.drafter.model import Drafter
from engine.models.folder import home, read_facts
from engine.models.load import end_tokens, load_model, load_tokenizer, resolve, resolve_drafter
from engine.rollout.data_type import native_data_type
from engine.rollout.interface import Completion, Request, RolloutEngine, RolloutStatistics, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.rollout.native.from_model import engine_from_model, fixed_strategy
from engine.rollout.native.linear import activations
from engine.tasks.countdown import CountdownTask


@dataclass
class Bed:
    """A model with its drafter on one CPU thread or one GPU. ``dtype`` is that of the engines; None: what ``model.dtype`` auto takes.
    ``drafter_from``: the folder of a drafter; None: the built-in model's."""

    model_name: str
    dtype: torch.dtype | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    drafter_from: Path | None = None

    def __post_init__(self) -> None:
        self._long: dict[tuple[int, int, int], list[Request]] = {}
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        folder = resolve(self.model_name)
        self.dtype = self.dtype or native_data_type(self.device, read_facts(folder).hidden_size)
        computed = activations(torch.empty(0, device=self.device, dtype=self.dtype)).dtype
        self.model: PreTrainedModel = load_model(folder, computed).to(self.device)  # type: ignore[arg-type]
        self.tokenizer = load_tokenizer(folder)
        self.end_tokens = end_tokens(self.model, self.tokenizer)
        drafter = self.drafter_from or resolve_drafter("builtin", self.model_name)
        assert drafter is not None, "benchmarks run on built-in models, which have drafters, or name one"
        self.drafter_folder: Path = drafter

    def engine(
        self,
        speculation: SpeculationConfig | None,
        max_batch: int = 64,
        drafter: Mapping[str, Tensor] | None = None,
        endless: bool = False,
        kind: DrafterKind = "eagle",
    ) -> NativeEngine:
        """A fresh engine; plain if ``speculation`` is None. ``drafter``: other weights than those of the model's drafter, of ``kind``;
        ``endless``: responses run to their limit."""
        weights = self.trained_drafter() if speculation and drafter is None else drafter
        return engine_from_model(
            self.model,
            frozenset() if endless else self.end_tokens,
            speculation,
            weights,
            kind,
            rollout=RolloutConfig(max_batch=max_batch),
            costs=home() / "costs",
            dtype=self.dtype,
        )

    def trained_drafter(self) -> dict[str, Tensor]:
        """The weights of the model's own drafter."""
        return load_drafter_folder(self.drafter_folder, self.model.config)

    def requests(self, count: int, group_size: int = 1, seed: int = 0, four_numbers: float = 0.3) -> list[Request]:
        """See ``countdown_requests``."""
        return countdown_requests(self.tokenizer, count, group_size, seed, four_numbers)

    def long_requests(self, count: int, tokens: int, seed: int) -> list[Request]:
        """The first ``count`` requests for hard problems to which plain decoding responds with at least ``tokens``, up to rounding;
        the seed is that of the sampling, too."""
        if (count, tokens, seed) in self._long:
            return self._long[count, tokens, seed]
        plain, candidates = self.engine(None), count
        while (count, tokens, seed) not in self._long:
            candidates *= 2
            requests = self.requests(max(candidates, 32), 8, seed, four_numbers=1.0)
            completions = plain.generate(requests, Sampling(max_new_tokens=tokens, seed=seed))
            found = [completion.request for completion in completions if completion.finish == "length"]
            if len(found) >= count:
                self._long[count, tokens, seed] = found[:count]
        return self._long[count, tokens, seed]

    def rates(self, engines: Mapping[Any, NativeEngine], size: int, tokens: int, repetitions: int) -> dict[Any, list[float]]:
        """Tokens per second of each, in turns, on the same ``size`` requests of at least ``tokens`` in each repetition."""
        found: dict[Any, list[float]] = {name: [] for name in engines}
        for repetition in range(repetitions):
            requests = self.long_requests(size, tokens, seed=repetition)
            for name, engine in engines.items():
                found[name].append(full_batch_rate(engine, requests, Sampling(max_new_tokens=tokens, seed=repetition)))
        return found

    def drive(self, engine: NativeEngine, size: int, steps: int, seed: int, tokens: int) -> float:
        """At least ``steps`` decode steps at a full batch; returns their seconds."""
        engine.take_statistics()
        seconds = 0.0
        while engine.statistics.decode_steps < steps:
            requests = self.long_requests(size, tokens, seed)
            began = time.perf_counter()
            full_batch_rate(engine, requests, Sampling(max_new_tokens=tokens, seed=seed), keep_statistics=True)
            seconds += time.perf_counter() - began
            seed += 1
        return seconds

    def facts(self) -> dict[str, Any]:
        """Machine and model, for the JSON."""
        parameters = sum(weight.numel() for weight in self.model.parameters())
        return {"model": self.model_name, "dtype": str(self.dtype).removeprefix("torch."), "parameters": parameters} | machine(self.device)


def countdown_requests(
    tokenizer: PreTrainedTokenizerBase, count: int, group_size: int = 1, seed: int = 0, four_numbers: float = 0.3
) -> list[Request]:
    """Countdown prompts, ``group_size`` requests each."""
    task = CountdownTask(CountdownConfig(four_numbers=four_numbers), 10**6 + seed, tokenizer)
    prompts = task.prompts(0, -(-count // group_size))
    return [Request(index, index // group_size, prompts[index // group_size].tokens) for index in range(count)]


def machine(device: torch.device | None = None) -> dict[str, Any]:
    """Device, by default the processor, and library, for the JSON."""
    on_gpu = device is not None and device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def fixed(depth: int, top_k: int = 1, verify: int | None = None) -> SpeculationConfig:
    """Always one strategy of the learned drafter, at every batch size, without suffix drafts."""
    return fixed_strategy(StrategyConfig(depth=depth, top_k=top_k, verify=verify or depth))


def untrained(config: PretrainedConfig) -> dict[str, Tensor]:
    """Random weights of a drafter, the worst there is."""
    torch.manual_seed(0)
    drafter = Drafter(config)
    for weight in drafter.parameters():
        torch.nn.init.normal_(weight, std=0.02)
    return drafter.state_dict()


class TimedRollout(NamedTuple):
    """A generation, its statistics alone, and how long it took."""

    completions: list[Completion]
    statistics: RolloutStatistics
    seconds: float

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.statistics.tokens / self.seconds


def timed(engine: RolloutEngine, requests: list[Request], sampling: Sampling) -> TimedRollout:
    engine.take_statistics()
    began = time.perf_counter()
    completions = engine.generate(requests, sampling)
    seconds = time.perf_counter() - began
    return TimedRollout(completions, engine.take_statistics(), seconds)


class _DrainedError(Exception):
    """The batch is not full any more."""


def full_batch_rate(engine: NativeEngine, requests: list[Request], sampling: Sampling, keep_statistics: bool = False) -> float:
    """Tokens per second of all ``requests`` at once, until the first of them finishes."""

    def stop(_: Completion) -> None:
        raise _DrainedError

    before, began = engine.statistics.tokens, time.perf_counter()
    with suppress(_DrainedError):
        engine.generate(requests, sampling, stop)
    rate = (engine.statistics.tokens - before) / (time.perf_counter() - began)
    if not keep_statistics:
        engine.take_statistics()
    return rate


def ratio(pairs: list[tuple[float, float]]) -> float:
    """Median of first / second over interleaved repetitions."""
    return round(median(first / second for first, second in pairs), 3)
