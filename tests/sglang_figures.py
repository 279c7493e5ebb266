"""How fast SGLang decodes plainly, with each fixed chain, and tuned; and our own engine beside it. Also run in small on a CPU."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from sglang_cases import chains, native_engine, sglang_engine
from transformers import PreTrainedModel

from engine.bench.testbed import timed
from engine.config import RolloutConfig, SpeculationConfig
from engine.config.task import CountdownConfig
from engine.drafter.export import load_drafter_folder
from engine.models.load import end_tokens, load_model, load_tokenizer
from engine.rollout.interface import Request, RolloutEngine, Sampling
from engine.tasks.countdown import CountdownTask

GOODPUT = {"name": "goodput"}
Arm = Callable[[bool], AbstractContextManager[RolloutEngine]]


@dataclass(frozen=True)
class Scale:
    """``batches`` of responses of exactly ``tokens`` tokens, and ``tail`` responses that end as they like, at 64 at once."""

    batches: Sequence[int]
    depths: Sequence[int]
    tokens: int
    tail: int
    longest: int
    repetitions: int


class Figures:
    """Of the model in ``folder`` and its drafter in ``drafter``, both enlarged from the built-in ones."""

    def __init__(self, folder: Path, drafter: Path, device: torch.device, dtype: torch.dtype, scale: Scale) -> None:
        self._folder, self._device, self._dtype, self._scale = folder, device, dtype, scale
        self._model: PreTrainedModel = load_model(folder, dtype)
        self._tokenizer = load_tokenizer(folder)
        self._weights = {name: weight.to(dtype) for name, weight in load_drafter_folder(drafter, self._model.config).items()}

    def measure(self) -> dict[str, Any]:
        """Tokens per second by batch size and arm, seconds of a long-tailed rollout by arm, and speed-ups against plain SGLang."""
        speculations = {"plain": None, **{f"chain {depth}": chains(depth) for depth in self._scale.depths}}
        speculations["tuned"] = chains(*self._scale.depths, tuner=GOODPUT)
        rates = {name: self._rates(partial(self._sglang, each)) for name, each in speculations.items()}
        for name, each in (("native plain", None), ("native tuned", chains(*self._scale.depths, tuner=GOODPUT))):
            rates[name] = self._rates(partial(self._native, each))
        return {
            "facts": {
                "parameters": sum(weight.numel() for weight in self._model.parameters()),
                "dtype": str(self._dtype),
                "device": torch.cuda.get_device_name() if self._device.type == "cuda" else "cpu",
                "torch": torch.__version__,
            },
            "batches": {str(size): self._compared({name: each[size] for name, each in rates.items()}) for size in self._scale.batches},
            "long_tail": {"seconds": {name: round(each[0], 2) for name, each in rates.items()}, "requests": self._scale.tail},
        }

    def _compared(self, rates: Mapping[str, float]) -> dict[str, Any]:
        static = {name: rate for name, rate in rates.items() if name.startswith("chain")}
        best = max(static, key=lambda name: static[name])
        return {
            "tokens_per_second": {name: round(rate, 1) for name, rate in rates.items()},
            "best_static": best,
            "best_static_speedup": round(static[best] / rates["plain"], 3),
            "tuned_speedup": round(rates["tuned"] / rates["plain"], 3),
            "tuned_of_best_static": round(rates["tuned"] / max(static[best], rates["plain"]), 3),
        }

    def _rates(self, arm: Arm) -> dict[int, float]:
        """By batch size; 0 has the seconds of the long tail. The first rollout of each kind warms up."""
        found: dict[int, float] = {}
        with arm(False) as engine:
            for size in self._scale.batches:
                sampling = Sampling(max_new_tokens=self._scale.tokens)
                found[size] = size * self._scale.tokens / self._median_seconds(engine, self._requests(size), sampling)
        with arm(True) as engine:
            found[0] = self._median_seconds(engine, self._requests(self._scale.tail), Sampling(max_new_tokens=self._scale.longest))
        return found

    def _median_seconds(self, engine: RolloutEngine, requests: Sequence[Request], sampling: Sampling) -> float:
        seconds = [timed(engine, list(requests), sampling).seconds for _ in range(self._scale.repetitions + 1)]
        return median(seconds[1:])

    def _requests(self, count: int) -> list[Request]:
        prompts = CountdownTask(CountdownConfig(four_numbers=1.0), 10**6, self._tokenizer).prompts(0, -(-count // 8))
        return [Request(index, index // 8, prompts[index // 8].tokens) for index in range(count)]

    def _rollout(self, ends: bool) -> RolloutConfig:
        longest = self._scale.longest if ends else self._scale.tokens
        return RolloutConfig(max_batch=64 if ends else max(self._scale.batches), max_prompt_tokens=32, max_new_tokens=longest)

    def _more(self, speculation: SpeculationConfig | None, ends: bool) -> dict[str, Any]:
        return {
            "drafter_weights": self._weights if speculation else None,
            "end_tokens": end_tokens(self._model, self._tokenizer) if ends else frozenset(),
            "device": self._device,
            "dtype": self._dtype,
        }

    def _sglang(self, speculation: SpeculationConfig | None, ends: bool) -> AbstractContextManager[RolloutEngine]:
        return sglang_engine(self._folder, self._model, self._rollout(ends), speculation, **self._more(speculation, ends))

    @contextmanager
    def _native(self, speculation: SpeculationConfig | None, ends: bool) -> Iterator[RolloutEngine]:
        yield native_engine(self._model, self._rollout(ends), speculation, **self._more(speculation, ends))
