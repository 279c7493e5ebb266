"""What benchmarks share: engines on one model with a given strategy, prompts, and the facts of the machine."""

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import PreTrainedModel

from engine.config import CountdownConfig, FixedConfig, RolloutConfig, SpeculationConfig, StrategyConfig
from engine.drafter.export import load_drafter_folder
from engine.models.load import end_tokens, load_model, load_tokenizer, resolve, resolve_drafter
from engine.rollout.base import Completion, Request, RolloutStatistics, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.tasks.countdown import CountdownTask


@dataclass
class Bed:
    """A model with its drafter on one CPU thread or one GPU."""

    model_name: str
    device: torch.device = field(default_factory=lambda: torch.device("cuda" if torch.cuda.is_available() else "cpu"))

    def __post_init__(self) -> None:
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        folder = resolve(self.model_name)
        self.model: PreTrainedModel = load_model(folder, torch.float32).to(self.device)  # type: ignore[arg-type]
        self.tokenizer = load_tokenizer(folder)
        self.end_tokens = end_tokens(self.model, self.tokenizer)
        drafter = resolve_drafter("builtin", self.model_name)
        assert drafter is not None, "benchmarks run on built-in models, which have drafters"
        self.drafter_folder: Path = drafter

    def engine(self, speculation: SpeculationConfig | None, max_batch: int = 64) -> NativeEngine:
        """A fresh engine; plain if ``speculation`` is None."""
        return NativeEngine(
            self.model.config,
            {name: weight.detach() for name, weight in self.model.named_parameters()},
            rollout=RolloutConfig(max_batch=max_batch),
            speculation=speculation,
            drafter_weights=load_drafter_folder(self.drafter_folder, self.model.config) if speculation else None,
            end_tokens=self.end_tokens,
            device=self.device,
        )

    def requests(self, count: int, group_size: int = 1, seed: int = 0) -> list[Request]:
        """Countdown prompts, ``group_size`` requests each."""
        prompts = CountdownTask(CountdownConfig(four_numbers=0.3), 10**6 + seed, self.tokenizer).prompts(0, -(-count // group_size))
        return [Request(index, index // group_size, prompts[index // group_size].tokens) for index in range(count)]

    def facts(self) -> dict[str, Any]:
        """Machine and model, for the JSON."""
        return {
            "model": self.model_name,
            "parameters": sum(weight.numel() for weight in self.model.parameters()),
            "device": torch.cuda.get_device_name() if self.device.type == "cuda" else platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }


def fixed(depth: int) -> SpeculationConfig:
    """Always a chain of ``depth`` drafts, at every batch size."""
    return SpeculationConfig(threshold=4096, strategies=(StrategyConfig(depth=depth, verify=depth),), tuner=FixedConfig())


def timed(engine: NativeEngine, requests: list[Request], sampling: Sampling) -> tuple[list[Completion], RolloutStatistics]:
    """One generation and its statistics alone."""
    engine.take_statistics()
    completions = engine.generate(requests, sampling)
    return completions, engine.take_statistics()


def ratio(pairs: list[tuple[float, float]]) -> float:
    """Median of first / second over interleaved repetitions."""
    return round(median(first / second for first, second in pairs), 3)
