"""Plain decoding, chains, trees and the tuner, by requests at once, and rollouts with a long tail."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from transformers import PreTrainedTokenizerBase

from engine.bench.gpu.models import bed
from engine.bench.gpu.parts import Part, Scale
from engine.bench.testbed import Bed, TimedRollout, countdown_requests, fixed, full_batch_rate, timed
from engine.config import SpeculationConfig
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.engine import NativeEngine

ARMS = {"plain": None, "chain": fixed(4), "tree": fixed(8, 4, 24), "tuned": SpeculationConfig()}
TAIL = ("plain", "tuned")
GROUP = 8
REPETITIONS = 3


def run(part: Part) -> None:
    """Tokens per second by requests at once, and the seconds of a rollout to its last token, of each model and arm. One model and one
    engine are there at a time: each has a copy of the weights, and the engine's cache takes what is left."""
    arms: dict[str, Any] = {}
    part.found(batches=part.scale.batches, arms=arms)
    for name in part.scale.models:
        _measure(part, bed(part, name), name, arms)


def _measure(part: Part, subject: Bed, name: str, arms: dict[str, Any]) -> None:
    part.found(facts=subject.facts())
    for batch in part.scale.batches:  # by an engine of their own
        subject.long_requests(batch, part.scale.tokens, seed=0)
    plain = arms[f"{name}, plain"] = {}
    for arm, speculation in ARMS.items():
        found = arms[f"{name}, {arm}"] = plain if arm == "plain" else {}
        _measure_arm(part, subject, subject.engine(speculation, max(part.scale.batches)), found, plain, tail=arm in TAIL)


def _measure_arm(part: Part, subject: Bed, engine: NativeEngine, found: dict[str, Any], plain: dict[str, Any], tail: bool) -> None:
    found["tok_s"] = []
    for batch in part.scale.batches:
        found["tok_s"].append(_rate(subject, engine, batch, part.scale.tokens))
        part.found()
    if found is not plain:
        found["speedup"] = speedups(found["tok_s"], plain["tok_s"])
    if tail:
        found |= _tail(subject, engine, part)
        found["tail_speedup"] = round(plain["tail_s"] / found["tail_s"], 3)
    part.found()


def speedups(rates: Sequence[float], plain: Sequence[float]) -> list[float]:
    """Against plain decoding of as many requests."""
    return [round(rate / base, 3) for rate, base in zip(rates, plain, strict=True)]


def _rate(subject: Bed, engine: NativeEngine, batch: int, tokens: int) -> float:
    """The median of some, after one in which most graphs are captured."""
    requests = subject.long_requests(batch, tokens, seed=0)
    rates = [full_batch_rate(engine, requests, Sampling(max_new_tokens=tokens, seed=0)) for _ in range(1 + REPETITIONS)]
    return round(median(rates[1:]), 1)


def _tail(subject: Bed, engine: NativeEngine, part: Part) -> dict[str, Any]:
    return tail_figures([timed(engine, requests, sampling) for requests, sampling in tail_rollouts(part.scale, subject.tokenizer)])


def tail_rollouts(scale: Scale, tokenizer: PreTrainedTokenizerBase) -> list[tuple[list[Request], Sampling]]:
    """Of responses of very different lengths, in groups of 8, after others as large, on which kernels are compiled, graphs captured and the
    tuner learns."""
    rollouts = [countdown_requests(tokenizer, scale.tail_requests, GROUP, seed) for seed in (900, 1000)]
    return [(requests, Sampling(max_new_tokens=scale.tail_tokens, seed=0)) for requests in rollouts]


def tail_figures(rollouts: Sequence[TimedRollout]) -> dict[str, Any]:
    """Of ``tail_rollouts``, the last of which counts."""
    completions, statistics, seconds = rollouts[-1]
    longest = max(len(completion.tokens) for completion in completions)
    return {"tail_s": round(seconds, 3), "tail_tokens": statistics.tokens, "tail_longest": longest}
