"""``bench tuner``: how fast and how well the tuner goodput finds the best strategy, on the real engine.

The yardstick of a decision is the measured rate of the strategy it chose, so that the machine's noise during the tuned run decides
nothing: a tuner is at 95 % when the strategies of its last decisions bring 95 % of the best one's tokens per second on average.
"""

import time
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from engine.bench.switching import switch_on
from engine.bench.testbed import Bed, untrained
from engine.config import SpeculationConfig, StrategyConfig
from engine.rollout.native.engine import NativeEngine
from engine.rollout.native.from_model import fixed_strategy
from engine.speculation.speculator import Speculator, StepPlan
from engine.speculation.strategy import OFF, Strategy

SIZES = (1, 4, 8, 32)
BOOKKEEPING_SIZES = (1, 4, 12, 32, 64)
READAPT_SIZE = 8
TOKENS = 256
"""Of each response: near its end a tuner rightly does other things than what is fastest for the batch as it is, the yardstick here."""
SHORT = 128
"""Of those by which only time is measured: requests with long responses have to be looked for."""
WINDOW = 40
WARM_UP = 100
GOOD_ENOUGH = 0.95
MOST_ROWS = 800


class StepRecorder:
    """Notes what a speculator plans, and how long that and the rest of its bookkeeping take."""

    def __init__(self, engine: NativeEngine) -> None:
        assert engine.speculator
        self.chosen: list[Strategy] = []
        self.seconds = 0.0
        self._engine, speculator = engine, engine.speculator
        for name in ("plan", "record"):
            setattr(speculator, name, self._timed(speculator, name))

    def _timed(self, speculator: Speculator, name: str) -> Any:
        method = getattr(speculator, name)

        def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            result = method(*arguments)
            self.seconds += time.perf_counter() - began
            if isinstance(result, StepPlan) and result.strategy is not None:
                self.chosen.append(result.strategy)
            return result

        return timed


def run(quick: bool, model: str) -> dict[str, Any]:
    """``decisions_to_95``: decode steps from the start, the worst batch size; ``readapt_decisions``: after a swap, the worse of the two."""
    bed = Bed(model)
    sizes = (1, 8) if quick else SIZES
    results = {size: _learn(bed, size, 1 if quick else _repetitions(size)) for size in sizes}
    good = results[READAPT_SIZE]["rates"]
    overheads = bookkeeping(bed, (1, 12) if quick else BOOKKEEPING_SIZES)
    return {
        "facts": bed.facts(),
        "oracle_ratio": {str(size): result["ratio"] for size, result in results.items()},
        "best": {str(size): result["best"] for size, result in results.items()},
        "decisions_to_95": max(result["decisions"] for result in results.values()),
        "overhead_ratio": max(overheads["learned"].values()),
        "overhead": overheads,
        **_readapt(bed, good, 1 if quick else _repetitions(READAPT_SIZE)),
        "switch_on_plain_steps": {str(size): switch_on(bed, size) for size in sizes},
    }


def _learn(bed: Bed, size: int, repetitions: int) -> dict[str, Any]:
    rates = _rates(bed, size, None, repetitions)
    engine = bed.engine(SpeculationConfig(threshold=4096), size)
    recorder = StepRecorder(engine)
    bed.drive(engine, size, 400, 0, TOKENS)
    quality = _quality(recorder.chosen, rates)
    result = {
        "rates": rates,
        "best": str(max(rates, key=lambda strategy: rates[strategy])),
        "decisions": _decisions(quality),
        "ratio": round(fmean(quality[200:]), 3),
    }
    print(f"batch {size}: {result | {'rates': {str(strategy): round(rate) for strategy, rate in rates.items()}}}", flush=True)
    return result


def bookkeeping(bed: Bed, sizes: Sequence[int]) -> dict[str, dict[str, float]]:
    """The share of decoding time that the speculator takes, at a full batch after ``WARM_UP`` steps: with all strategies and the trained
    drafter, and with n-grams alone."""
    ngrams = (StrategyConfig(drafter="ngram", depth=8, verify=8),)
    arms = {"learned": SpeculationConfig(threshold=4096), "ngrams": SpeculationConfig(threshold=4096, strategies=ngrams)}
    return {name: {str(size): _overhead(bed, config, size) for size in sizes} for name, config in arms.items()}


def _overhead(bed: Bed, config: SpeculationConfig, size: int) -> float:
    engine = bed.engine(config, size)
    bed.drive(engine, size, WARM_UP, 0, SHORT)
    recorder = StepRecorder(engine)
    seconds = bed.drive(engine, size, WARM_UP, 1, SHORT)
    print(f"batch {size}: {1000 * recorder.seconds / engine.statistics.decode_steps:.2f} ms of bookkeeping a step", flush=True)
    return round(recorder.seconds / seconds, 4)


def _readapt(bed: Bed, good: dict[Strategy, float], repetitions: int) -> dict[str, Any]:
    """The drafter is swapped for an untrained one and back, in the midst of learning."""
    size, worst = READAPT_SIZE, untrained(bed.model.config)
    bad = _rates(bed, size, worst, repetitions)
    engine = bed.engine(SpeculationConfig(threshold=4096), size)
    trained = bed.trained_drafter()
    bed.drive(engine, size, 200, 0, TOKENS)
    decisions = {}
    for version, (name, weights, rates) in enumerate((("bad", worst, bad), ("good", trained, good)), 1):
        engine.load_drafter(weights, version)
        recorder = StepRecorder(engine)
        bed.drive(engine, size, 300, version * 100, TOKENS)
        decisions[name] = _decisions(_quality(recorder.chosen, rates))
    return {"readapt_decisions": max(decisions.values()), "readapt": decisions}


def _repetitions(size: int) -> int:
    """More of them for few requests, whose rates depend more on what they happen to say."""
    return 3 + 4 // size


def _rates(bed: Bed, size: int, drafter: Any, repetitions: int) -> dict[Strategy, float]:
    """Median tokens per second of every strategy that can be chosen, in turns, each round relative to its mean: neither its prompts nor
    what the machine was busy with in it change the order."""
    configs = [strategy for strategy in SpeculationConfig().strategies if size * (strategy.verify + 1) <= MOST_ROWS]
    engines = {OFF: bed.engine(None, size)}
    engines |= {Strategy.of(config): bed.engine(fixed_strategy(config), size, drafter=drafter) for config in configs}
    measured = bed.rates(engines, size, TOKENS, repetitions)
    rounds = [fmean(rates) for rates in zip(*measured.values(), strict=True)]
    usual = median(rounds)
    return {strategy: usual * median(rate / mean for rate, mean in zip(rates, rounds, strict=True)) for strategy, rates in measured.items()}


def _quality(chosen: Sequence[Strategy], rates: dict[Strategy, float]) -> list[float]:
    """Each decision's share of the best rate; strategies that were not measured count as nothing."""
    best = max(rates.values())
    return [rates.get(strategy, 0.0) / best for strategy in chosen]


def _decisions(quality: Sequence[float]) -> int:
    """Decisions before a window of good ones; all of them if there is none."""
    for first in range(len(quality) - WINDOW):
        if fmean(quality[first : first + WINDOW]) >= GOOD_ENOUGH:
            return first
    return len(quality)
