"""``bench rollout``: plain decoding, fixed chains and BEG-MAB at several batch sizes, and a whole long-tailed rollout."""

from statistics import median
from typing import Any

import torch

from engine.bench.bed import Bed, fixed, ratio, timed
from engine.config import SpeculationConfig
from engine.rollout.base import Request, Sampling
from engine.rollout.native.engine import NativeEngine

DEPTHS = (3, 5, 7)
REPETITIONS = 3


def run(quick: bool, model: str) -> dict[str, Any]:
    """Arms take turns within each repetition; every figure is a median. Batch sizes run to the last request's end."""
    bed = Bed(model)
    sizes = (1, 8) if quick else (1, 4, 8, 16, 32)
    batches = {str(size): _batch(bed, size, 128 if quick else 256) for size in sizes}
    return {"facts": bed.facts(), "batches": batches, "long_tail": _long_tail(bed, 32 if quick else 128)}


def _batch(bed: Bed, size: int, tokens: int) -> dict[str, Any]:
    arms: dict[str, NativeEngine] = {"plain": bed.engine(None)}
    arms |= {f"d{depth}": bed.engine(fixed(depth)) for depth in DEPTHS}
    arms["beg"] = bed.engine(SpeculationConfig(threshold=4096))
    rates: dict[str, list[float]] = {name: [] for name in (*arms, "hf")}
    for repetition in range(-1, REPETITIONS):  # the first warms up, and lets the bandit try its arms
        requests = bed.requests(size, seed=repetition + 1)
        sampling = Sampling(max_new_tokens=tokens, seed=repetition + 1)
        for name, engine in arms.items():
            statistics = timed(engine, requests, sampling)[1]
            rates[name].append(statistics.tokens / statistics.seconds)
        rates["hf"].append(_transformers(bed, requests, tokens))
    kept = {name: values[1:] for name, values in rates.items()}
    speedups = {name: ratio(list(zip(values, kept["plain"], strict=True))) for name, values in kept.items()}
    best = max((f"d{depth}" for depth in DEPTHS), key=lambda name: speedups[name])
    return {
        "plain_tok_s": round(median(kept["plain"]), 1),
        "hf_tok_s": round(median(kept["hf"]), 1),
        "best_arm": best,
        "best_speedup": speedups[best],
        "beg_speedup": speedups["beg"],
    }


def _transformers(bed: Bed, requests: list[Request], tokens: int) -> float:
    """Tokens per second of transformers' own generate on the same prompts, tokens after an end not counted."""
    import time

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


def _long_tail(bed: Bed, count: int) -> dict[str, float]:
    plain, tlt = bed.engine(None), bed.engine(SpeculationConfig())
    seconds: dict[str, list[float]] = {"plain": [], "tlt": []}
    for repetition in range(REPETITIONS):
        requests = bed.requests(count, group_size=8, seed=100 + repetition)
        for name, engine in (("plain", plain), ("tlt", tlt)):
            seconds[name].append(timed(engine, requests, Sampling(max_new_tokens=1024, seed=repetition))[1].seconds)
    return {
        "plain_s": round(median(seconds["plain"]), 2),
        "tlt_s": round(median(seconds["tlt"]), 2),
        "speedup": ratio(list(zip(seconds["plain"], seconds["tlt"], strict=True))),
    }
