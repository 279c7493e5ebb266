"""The same in SGLang: by itself, plainly and with drafts of one shape of the same drafter, exported; and as our engine, whose tuner chooses
a strategy at every step."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from engine.bench.bare_sglang import drafting, kernels, serve
from engine.bench.gpu.decoding import speedups, tail_figures, tail_rollouts
from engine.bench.gpu.models import device, folders
from engine.bench.gpu.parts import Part
from engine.bench.gpu.sglang_plugin import discoverable
from engine.bench.testbed import countdown_requests, timed
from engine.config import RolloutConfig, SpeculationConfig, StrategyConfig
from engine.drafter.export import load_drafter_folder, write_serving_folder
from engine.drafter.model_card import DrafterCard
from engine.models.load import end_tokens, load_model, load_tokenizer
from engine.models.weights import base_weights, ends
from engine.rollout.interface import Request, Sampling
from engine.rollout.sglang.arguments import attention_arguments, attention_head
from engine.rollout.sglang.engine import SGLangEngine
from engine.rollout.sglang.start_errors import CHAINS_ONLY

DTYPE = torch.bfloat16
"""Of model and drafter alike: left to itself SGLang takes float16 where a folder has float32, as the drafter's does."""
CHAINS = SpeculationConfig(strategies=tuple(StrategyConfig(depth=depth, top_k=1, verify=depth) for depth in (8, 6, 4, 2)))
"""What the tuner has to choose from in an SGLang that drafts no trees for it."""
SHAPES = {"chain": (4, 1, 4), "tree": (8, 4, 24)}
MEMORY = 0.8
"""Share of a GPU's memory for our engine's weights and cache: nothing else is on it."""


def run(part: Part) -> None:
    """The largest model first, and of each what a run would have: each SGLang takes a minute to start, or so."""
    arms: dict[str, Any] = {}
    part.found(version=version("sglang"), batches=part.scale.batches, chains_only=strategies() is CHAINS, arms=arms)
    for name in list(part.scale.models)[::-1]:
        subject = Subject(part, name)
        plain = arms[f"{name}, plain"] = subject.bare()
        part.found()
        for arm in ("tuned", *SHAPES):
            found = arms[f"{name}, {arm}"] = subject.tuned() if arm == "tuned" else subject.bare(arm)
            found["speedup"] = speedups(found["tok_s"], plain["tok_s"])
            if "tail_s" in found:
                found["tail_speedup"] = round(plain["tail_s"] / found["tail_s"], 3)
            part.found()


def strategies() -> SpeculationConfig:
    """Those of a run that says nothing of them, where this SGLang can change to trees."""
    return CHAINS if version("sglang") == CHAINS_ONLY else SpeculationConfig()


@dataclass
class Subject:
    """A model on the host, of which SGLang, in a process of its own, has the GPU's."""

    part: Part
    name: str

    @cached_property
    def folder(self) -> Path:
        return folders(self.part, self.name)[0]

    @cached_property
    def model(self) -> PreTrainedModel:
        return load_model(self.folder, DTYPE)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return load_tokenizer(self.folder)

    @cached_property
    def drafter(self) -> dict[str, torch.Tensor]:
        return load_drafter_folder(folders(self.part, self.name)[1], self.model.config)

    @cached_property
    def rollouts(self) -> list[tuple[list[Request], Sampling]]:
        """Those of each batch come a second time, with all graphs there; then those with a long tail."""
        scale = self.part.scale
        batches = [(countdown_requests(self.tokenizer, batch), Sampling(max_new_tokens=scale.tokens)) for batch in scale.batches]
        return [batch for batch in batches for _ in range(2)] + tail_rollouts(scale, self.tokenizer)

    @property
    def _tail(self) -> int:
        """Where in ``rollouts`` those with a long tail begin."""
        return 2 * len(self.part.scale.batches)

    def bare(self, arm: str = "plain") -> dict[str, Any]:
        """SGLang without us. What drafts has no rollouts with a long tail."""
        drafted = drafting(self._exported(), *SHAPES[arm]) if arm in SHAPES else {}
        asked = [([request.prompt for request in requests], sampling) for requests, sampling in self.rollouts]
        options = {"dtype": _name(DTYPE), "max_running_requests": max(self.part.scale.batches)}
        attention = attention_arguments(DTYPE, attention_head(self.model.config)) if device().type == "cuda" else {}
        served = serve(self.folder, asked[: self._tail] if drafted else asked, **options | drafted | attention)
        rates = [round(sum(map(len, one.tokens)) / one.seconds, 1) for one in served[1 : self._tail : 2]]
        if drafted:
            return {"tok_s": rates}
        lengths = [len(tokens) for tokens in served[-1].tokens]
        tail = {"tail_s": round(served[-1].seconds, 3), "tail_tokens": sum(lengths), "tail_longest": max(lengths)}
        return {"tok_s": rates} | tail

    def tuned(self) -> dict[str, Any]:
        """SGLang with our plugin."""
        with self._engine() as engine:
            found = [timed(engine, requests, sampling) for requests, sampling in self.rollouts]
            graphs = engine.describe_graphs()
        rates = [round(rollout.rate, 1) for rollout in found[1 : self._tail : 2]]
        return {"tok_s": rates, "graphs": graphs} | tail_figures(found)

    @contextmanager
    def _engine(self) -> Iterator[SGLangEngine]:
        scale = self.part.scale
        rollout = {"max_batch": max(scale.batches), "max_new_tokens": max(scale.tokens, scale.tail_tokens)}
        with kernels(), discoverable(self.part.scratch / "plugin"):
            engine = SGLangEngine(
                self.folder,
                self.model.config,
                base_weights(self.model),
                rollout=RolloutConfig.model_validate(rollout | {"sglang": {"mem_fraction": MEMORY}}),
                speculation=strategies(),
                end_tokens=end_tokens(self.model, self.tokenizer),
                device=device(),
                drafter_weights=self.drafter,
                dtype=DTYPE,
            )
            try:
                yield engine
            finally:
                engine.close()

    def _exported(self) -> Path:
        folder = self.part.scratch / f"{self.name}-exported"
        if not folder.is_dir():
            folder.mkdir()
            card = DrafterCard(self.name, "tiny's, enlarged", 0)
            write_serving_folder(folder, self.drafter, self.model.config, ends(self.model)[1], card, "sglang")
        return folder


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
