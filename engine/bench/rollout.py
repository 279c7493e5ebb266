"""``bench rollout``: plain decoding, every fixed strategy, n-gram only, both tuners and transformers at many batch sizes, and a whole
long-tailed rollout.

All arms of a batch size generate the same responses (on a CPU token for token), so their times compare directly.
"""

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import torch

from engine.bench.testbed import Bed, ratio, timed, untrained
from engine.config import BegConfig, SpeculationConfig, StrategyConfig
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.rollout.native.from_model import fixed_strategy

SIZES = (1, 2, 4, 8, 16, 32, 64)
REPETITIONS = 2
TOKENS = 128
LONG_TAILS = 4
MOST_ROWS = 800
DECISIONS = 200


def run(quick: bool, model: str) -> dict[str, Any]:
    """Arms take turns within each repetition; every figure is a median of ratios to plain decoding in the same repetition."""
    bed = Bed(model)
    sizes = (1, 8) if quick else SIZES
    batches = {str(size): _batch(bed, size, 1 if quick else REPETITIONS) for size in sizes}
    return {"facts": bed.facts(), "batches": batches, "long_tail": _long_tail(bed, 32 if quick else 128, 1 if quick else LONG_TAILS)}


def _batch(bed: Bed, size: int, repetitions: int) -> dict[str, Any]:
    arms = _arms(bed, size)
    tuned = ("beg", "goodput", "untrained")
    for name in tuned:
        bed.drive(arms[name], size, DECISIONS, 10_000, TOKENS // 2)  # in which a tuner learns
    rates = bed.rates(arms, size, TOKENS, repetitions)
    speedups = {name: ratio(list(zip(values, rates["plain"], strict=True))) for name, values in rates.items()}
    fixed_arms = {name: speedup for name, speedup in speedups.items() if name not in (*tuned, "plain")}
    best = max(fixed_arms, key=lambda name: fixed_arms[name])
    result = {
        "plain_tok_s": round(median(rates["plain"]), 1),
        **_against_transformers(bed, size),
        "best_arm": best,
        "best_speedup": speedups[best],
        "goodput_speedup": speedups["goodput"],
        "beg_speedup": speedups["beg"],
        "ngram_speedup": max(speedup for name, speedup in fixed_arms.items() if name.startswith("ngram")),
        "untrained_speedup": speedups["untrained"],
        "arms": fixed_arms,
    }
    print(f"batch {size}: {result}", flush=True)
    return result


def _arms(bed: Bed, size: int) -> dict[str, NativeEngine]:
    arms: dict[str, NativeEngine] = {"plain": bed.engine(None, size)}
    for strategy in SpeculationConfig().strategies:
        if size * (strategy.verify + 1) <= MOST_ROWS:
            config = fixed_strategy(strategy)
            arms[f"{strategy.drafter} {strategy.depth}/{strategy.top_k}/{strategy.verify}"] = bed.engine(config, size)
    everything = {"threshold": 4096}
    arms["goodput"] = bed.engine(SpeculationConfig.model_validate(everything), size)
    arms["beg"] = bed.engine(SpeculationConfig.model_validate(everything | {"tuner": BegConfig()}), size)
    arms["untrained"] = bed.engine(SpeculationConfig.model_validate(everything), size, drafter=untrained(bed.model.config))
    return arms


def _against_transformers(bed: Bed, size: int, tokens: int = 96) -> dict[str, float]:
    """Plain decoding and transformers' own generate of one batch of prompts, up to the last one's end."""
    requests = bed.requests(size, seed=7)
    engine = bed.engine(None, size)
    rates: dict[str, list[float]] = {"plain": [], "hf": []}
    for _ in range(2):
        rates["plain"].append(timed(engine, requests, Sampling(max_new_tokens=tokens)).rate)
        rates["hf"].append(_transformers(bed, requests, tokens))
    return {
        "hf_tok_s": round(median(rates["hf"]), 1),
        "plain_vs_hf": ratio(list(zip(rates["plain"], rates["hf"], strict=True))),
    }


def _transformers(bed: Bed, requests: Sequence[Request], tokens: int) -> float:
    """Tokens per second, tokens after an end not counted."""
    longest = max(len(request.prompt) for request in requests)
    inputs = torch.tensor([[0] * (longest - len(request.prompt)) + list(request.prompt) for request in requests])
    mask = torch.tensor([[0] * (longest - len(request.prompt)) + [1] * len(request.prompt) for request in requests])
    torch.manual_seed(0)
    began = time.perf_counter()
    output: Any = bed.model.generate(  # type: ignore[operator]
        input_ids=inputs.to(bed.device), attention_mask=mask.to(bed.device), max_new_tokens=tokens, do_sample=True, top_k=0
    )
    seconds = time.perf_counter() - began
    generated = output[:, longest:]
    ended = torch.isin(generated, torch.tensor(sorted(bed.end_tokens), device=bed.device)).cumsum(1)
    return float(((ended == 0).sum() + (ended[:, -1] > 0).sum()) / seconds)


def _long_tail(bed: Bed, count: int, repetitions: int) -> dict[str, Any]:
    """All of ``count`` requests, in groups of 8, to the end of the last one; each engine learns on another, smaller rollout before.

    Speedups are of the sum of several rollouts: in bfloat16 a rollout's longest response depends on rounding, and with it its time."""
    ngrams = tuple(StrategyConfig(drafter="ngram", depth=depth, verify=depth) for depth in (8, 3))
    engines: Mapping[str, NativeEngine] = {
        "plain": bed.engine(None),
        "tlt": bed.engine(SpeculationConfig()),
        "ngram": bed.engine(SpeculationConfig(strategies=ngrams)),
        "untrained": bed.engine(SpeculationConfig(), drafter=untrained(bed.model.config)),
    }
    for engine in engines.values():
        timed(engine, bed.requests(count // 4, group_size=8, seed=900), Sampling(max_new_tokens=256))
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    lengths: list[int] = []
    for repetition in range(repetitions):
        requests = bed.requests(count, group_size=8, seed=1000 + 100 * repetition)
        for name, engine in engines.items():
            completions, statistics, spent = timed(engine, requests, Sampling(max_new_tokens=1024, seed=repetition))
            seconds[name].append(spent)
            longest = max(len(completion.tokens) for completion in completions)
            print(f"{name}: {spent:.1f} s, {statistics.tokens} tokens, the longest response {longest}", flush=True)
        lengths += [len(completion.tokens) for completion in completions]
    speedups = {name: round(sum(seconds["plain"]) / sum(each), 3) for name, each in seconds.items()}
    return {
        "requests": count,
        "rollouts": repetitions,
        "median_length": median(lengths),
        "longest": max(lengths),
        "plain_s": round(sum(seconds["plain"]), 2),
        "tlt_s": round(sum(seconds["tlt"]), 2),
        "speedup": speedups["tlt"],
        "ngram_speedup": speedups["ngram"],
        "untrained_speedup": speedups["untrained"],
    }
