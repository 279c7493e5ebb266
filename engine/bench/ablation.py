"""``bench tuner --ablate``: what each part of the tuner goodput is worth, in seconds of virtual rollouts.

On a real machine noise of 5 % hides what is looked for here, 1 %: the clock and what is accepted are simulated (virtual_rollouts.py).
"""

import math
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.bench.testbed import Bed
from engine.bench.virtual_rollouts import Case, Rollouts
from engine.config import SpeculationConfig
from engine.speculation.tuner import acceptance_rates, goodput
from engine.speculation.tuner.cost_table import CostTable
from engine.speculation.tuner.exploration import Exploration
from engine.speculation.tuner.step_time_correction import StepTimeCorrection

CASES: Mapping[str, Case] = {
    "one": Case(1),
    "four": Case(4),
    "sixteen": Case(16),
    "thirty_two": Case(32),
    "long_tail": Case(32, None),
    "brief": Case(64, 16),
    "long_prompts": Case(16, 24, prompt=2000),
}
RATES = (0.1, 0.4, 0.6, 0.8)
"""At which a drafted token is accepted, if those before it are."""
SEEDS = 5


class _Uncorrected(StepTimeCorrection):
    def update(self, arm: int, bucket: int, log_ratio: float, steps: int) -> None:
        pass


def _best(_: Exploration, arms: list[int], score: Any, *__: Any) -> int:
    return max(arms, key=score.__getitem__)


PARTS: Mapping[str, tuple[Any, str, Any]] = {
    "correction of step times": (goodput, "StepTimeCorrection", _Uncorrected),
    "trials": (Exploration, "choose", _best),
    "less certainty at new weights": (acceptance_rates.AcceptanceRates, "widen", lambda _: None),
    "forgetting by steps": (acceptance_rates, "FOLLOWED", 1e9),
    "catch-up of the drafter": (goodput.GoodputTuner, "_late", lambda _, __, predicted: np.zeros(len(predicted))),
    "last steps": (goodput, "LAST", 0.0),
}
"""What is put in the place of each part to switch it off."""


def run(quick: bool, model: str) -> dict[str, Any]:
    """Per cent that rollouts take longer without each part: geometric means over rates and seeds, and the standard error of all cases."""
    bed = Bed(model)
    costs = bed.engine(SpeculationConfig(), max(case.requests for case in CASES.values())).measured()
    assert costs, "the default tuner goes by costs"
    return {"facts": bed.facts(), "seeds": 1 if quick else SEEDS, **ablated(costs, CASES, 1 if quick else SEEDS)}


def ablated(costs: CostTable, cases: Mapping[str, Case], seeds: int) -> dict[str, Any]:
    """By case, and for ``all``: ``plain``, what plain decoding takes longer, and ``without`` each part, what is lost then."""
    rollouts = [(case, rate, seed) for case in cases for rate in RATES for seed in range(seeds)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        seconds = {name: list(pool.map(partial(_seconds, costs, cases, name), rollouts)) for name in ("", "plain", *PARTS)}
    whole = seconds.pop("")
    lost = {name: _by_case([case for case, _, _ in rollouts], np.log(found) - np.log(whole)) for name, found in seconds.items()}
    return {"plain": lost.pop("plain"), "without": lost}


def _by_case(cases: list[str], logs: NDArray[np.float64]) -> dict[str, float]:
    """Per cent, and the standard error of ``all``."""
    means = {case: logs[np.array(cases) == case].mean() for case in dict.fromkeys(cases)} | {"all": logs.mean()}
    percent = {case: round(100 * math.expm1(mean), 2) for case, mean in means.items()}
    return percent | {"error": round(100 * float(logs.std(ddof=1)) / math.sqrt(len(logs)), 2)}


def _seconds(costs: CostTable, cases: Mapping[str, Case], part: str, rollout: tuple[str, float, int]) -> float:
    """Of some rollouts without ``part`` (empty: with all)."""
    case, rate, seed = rollout
    with switched_off(part):
        return Rollouts(costs, seed, speculates=part != "plain").seconds(cases[case], rate)


@contextmanager
def switched_off(part: str) -> Iterator[None]:
    """Nothing where there is no such part."""
    if part not in PARTS:
        yield
        return
    owner, name, instead = PARTS[part]
    usual = getattr(owner, name)
    setattr(owner, name, instead)
    try:
        yield
    finally:
        setattr(owner, name, usual)
