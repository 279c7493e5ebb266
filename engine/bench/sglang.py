"""``bench sglang``: a drafter of ours, exported, in a bare SGLang and in our engine, with a pretrained model on GSM8K.

Both draft chains or trees of one shape for the same prompts. Greedy responses are compared token for token with those of plain decoding,
in our engine (``different``) and in SGLang (``changed``). At a temperature only accept lengths are: each engine draws tokens of its own,
and SGLang drafts the likeliest ones, where our drafter draws with the target's noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from engine.bench.bare_sglang import Rollout, Served, drafting, serve
from engine.bench.real import RealBed, trained_drafter, training_file
from engine.bench.testbed import machine, timed
from engine.config import RolloutConfig, SpeculationConfig, StrategyConfig
from engine.drafter.export import TOKEN_MAP, load_drafter_folder, write_serving_folder
from engine.drafter.kind import drafter_kind, weights_kind
from engine.drafter.model_card import DrafterCard
from engine.models.load import load_model
from engine.models.weights import ends
from engine.rollout.interface import Request, RolloutStatistics, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.rollout.native.from_model import engine_from_model, fixed_strategy
from engine.rollout.sglang.arguments import ALGORITHMS

PROMPTS, SIBLINGS, TOKENS = 16, 4, 96
MINUTES = 10
GREEDY, SAMPLED = Sampling(0, max_new_tokens=TOKENS), Sampling(0.7, 0.95, max_new_tokens=TOKENS)
TYPES = (torch.float32, torch.bfloat16)


STRATEGIES = (StrategyConfig(depth=4, verify=4), StrategyConfig(depth=4, top_k=4, verify=12))
Tokens = tuple[int, ...]
Requests = Mapping[Sampling, Sequence[Request]]


@dataclass(frozen=True)
class Plain:
    """Greedy responses without drafts, of our engine and of SGLang."""

    ours: list[Tokens]
    theirs: list[Tokens]


def run(quick: bool, model: str, data: Path | None, drafter: Path | None) -> dict[str, Any]:
    """``drafter`` None: one that is trained for ``MINUTES``."""
    data = training_file("sglang", data)
    folder = drafter or trained_drafter(model, data, MINUTES)
    bed = RealBed(model, data)
    greedy = bed.requests(4 if quick else PROMPTS)
    requests = {GREEDY: greedy, SAMPLED: bed.requests(len(greedy) * SIBLINGS, SIBLINGS)}
    arms: dict[str, Any] = {}
    for dtype in TYPES[: 1 if quick else None]:
        pair = Pair(bed, dtype, folder)
        plain = pair.plain(greedy)
        for strategy in STRATEGIES[: 1 if quick else None]:
            for sampling, found in pair.compare(strategy, requests, plain).items():
                name = f"{_name(dtype)}, {'greedy' if sampling is GREEDY else 'sampled'}, {_shape(strategy)}"
                arms[name] = found
                print(name, found, flush=True)
    return {"model": model, "prompts": len(greedy), "tokens": TOKENS, "arms": arms, "facts": machine(bed.model.device)}


class Pair:
    """Our engine and SGLang with the same model and drafter, in ``dtype``."""

    def __init__(self, bed: RealBed, dtype: torch.dtype, drafter: Path) -> None:
        self._folder, self._ends = bed.folder, bed.ends
        self._model = load_model(bed.folder, dtype).to(bed.model.device)
        self._weights = load_drafter_folder(drafter, self._model.config, drafter_kind(drafter))
        self._card = DrafterCard(bed.name, "", 0)

    def plain(self, requests: Sequence[Request]) -> Plain:
        engine = self._engine(None)
        ours = [completion.tokens for completion in engine.generate(requests, GREEDY)]
        return Plain(ours, self._serve([_rollout(requests, GREEDY)])[0].tokens)

    def compare(self, strategy: StrategyConfig, requests: Requests, plain: Plain) -> dict[Sampling, dict[str, Any]]:
        """Accept lengths by sampling, and how many greedy responses are not ``plain`` ones."""
        engine = self._engine(fixed_strategy(strategy))
        found = {}
        for (sampling, asked), theirs in zip(requests.items(), self._drafted(strategy, requests), strict=True):
            found[sampling] = compared(timed(engine, [*asked], sampling).statistics, theirs)
            if sampling is GREEDY:
                found[sampling] |= {"different": _different(plain.ours, theirs.tokens), "changed": _different(plain.theirs, theirs.tokens)}
        return found

    def _engine(self, speculation: SpeculationConfig | None) -> NativeEngine:
        drafter, kind = self._weights if speculation else None, weights_kind(self._weights)
        return engine_from_model(self._model, self._ends, speculation, drafter, kind, rollout=RolloutConfig(max_prompt_tokens=512))

    def _drafted(self, strategy: StrategyConfig, requests: Requests) -> list[Served]:
        with TemporaryDirectory(prefix="longtail-bench-") as aside:
            folder = Path(aside)
            write_serving_folder(folder, self._weights, self._model.config, ends(self._model)[1], self._card, "sglang")
            arguments = drafting(folder, strategy.depth, strategy.top_k, strategy.verify, ALGORITHMS[weights_kind(self._weights)])
            if (folder / TOKEN_MAP).exists():
                arguments["speculative_token_map"] = str(folder / TOKEN_MAP)
            return self._serve([_rollout(asked, sampling) for sampling, asked in requests.items()], **arguments)

    def _serve(self, rollouts: Sequence[Rollout], **arguments: Any) -> list[Served]:
        return serve(self._folder, rollouts, dtype=_name(self._model.dtype), **arguments)


def compared(ours: RolloutStatistics, theirs: Served) -> dict[str, Any]:
    """Accept lengths, and theirs over ours."""
    native = 1 + sum(ours.accepted_by_position) / ours.drafted_by_position[0]
    return {"native": round(native, 4), "sglang": round(theirs.accept_length, 4), "ratio": round(theirs.accept_length / native, 4)}


def _different(some: Sequence[Tokens], others: Sequence[Tokens]) -> int:
    return sum(one != other for one, other in zip(some, others, strict=True))


def _rollout(requests: Sequence[Request], sampling: Sampling) -> Rollout:
    return [request.prompt for request in requests], sampling


def _shape(strategy: StrategyConfig) -> str:
    return f"{'chains' if strategy.top_k == 1 else 'trees'} of {strategy.depth}/{strategy.top_k}/{strategy.verify}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
