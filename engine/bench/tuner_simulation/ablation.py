"""``bench tuner --ablate``: what each part of the goodput tuner brings, in simulated rollouts without noise in the result."""

import random
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

import numpy as np

from engine.bench.tuner_simulation.cases import CASES, Case
from engine.bench.tuner_simulation.score import ARMS, Tuned, score
from engine.config import BegConfig, GoodputConfig
from engine.speculation.strategy import Context
from engine.speculation.tuner.beg_bandit import BegTuner
from engine.speculation.tuner.goodput import GoodputTuner
from engine.speculation.tuner.interface import Tuner
from engine.speculation.tuner.step_times import StepTimes

SEEDS = 3
Build = Callable[[Case, int], Tuner]


def goodput(case: Case, seed: int) -> GoodputTuner:
    return GoodputTuner(ARMS, GoodputConfig(), random.Random(seed), case.told or case.costs)


def without_table(_: Case, seed: int) -> GoodputTuner:
    return GoodputTuner(ARMS, GoodputConfig(), random.Random(seed), None)


def beg(_: Case, seed: int) -> BegTuner:
    return BegTuner(ARMS, BegConfig(), random.Random(seed))


def without(switch_off: Callable[[GoodputTuner], None]) -> Build:
    """The goodput tuner, one part of which does nothing."""

    def build(case: Case, seed: int) -> Tuner:
        tuner = goodput(case, seed)
        switch_off(tuner)
        return tuner

    return build


def correction(tuner: GoodputTuner) -> None:
    tuner._times.update = lambda *_: setattr(tuner._times, "last", 0)  # type: ignore[method-assign]


def machine(tuner: GoodputTuner) -> None:
    """All surprises are the arms', whichever was in use before."""
    update = tuner._times.update

    def to_the_arm(arm: int, bucket: int, log_ratio: float) -> None:
        if tuner._times.last is not None:
            tuner._times.last = -1
        update(arm, bucket, log_ratio)

    tuner._times.update = to_the_arm  # type: ignore[method-assign]


def trust(tuner: GoodputTuner) -> None:
    tuner._times = StepTimes(list(map(str, (tuner._arms))), 0.0)


def siblings(tuner: GoodputTuner) -> None:
    tuner._acceptance._siblings[:] = 0


def less_certainty(tuner: GoodputTuner) -> None:
    tuner._acceptance.widen = lambda: None  # type: ignore[method-assign]


def doubt_of_acceptance(tuner: GoodputTuner) -> None:
    tuner._acceptance.drawn = lambda rng: tuner._acceptance.expected()  # type: ignore[method-assign]  # noqa: ARG005


def doubt_of_seconds(tuner: GoodputTuner) -> None:
    tuner._times.doubts = lambda bucket: np.zeros(len(tuner._arms))  # type: ignore[method-assign]  # noqa: ARG005


def trials(tuner: GoodputTuner) -> None:
    doubt_of_acceptance(tuner)
    doubt_of_seconds(tuner)


def allowance(tuner: GoodputTuner) -> None:
    decide = tuner._decide

    def whatever_it_costs(context: Context, last: int) -> tuple[int, int]:
        tuner._credit = float("inf")
        return decide(context, last)

    tuner._decide = whatever_it_costs  # type: ignore[method-assign]


def found(tuner: GoodputTuner) -> None:
    """N-grams are taken to find a draft at every step."""
    tuner._steps = lambda accepted, seconds: (1 + accepted, seconds)  # type: ignore[method-assign]


PARTS: Mapping[str, Build] = {
    "measured cost table": without_table,
    "correction of step times": without(correction),
    "speed of the machine": without(machine),
    "trust in the table": without(trust),
    "guess from other shapes": without(siblings),
    "less certainty after new weights": without(less_certainty),
    "trials": without(trials),
    "doubt of acceptance": without(doubt_of_acceptance),
    "doubt of step times": without(doubt_of_seconds),
    "allowance of trials": without(allowance),
    "how often n-grams find a draft": without(found),
}


def run(quick: bool) -> dict[str, Any]:
    """Shares of the oracle's speed: ``whole``, of ``beg``, and without each part, with the case in which that loses most."""
    seeds, cases = (1, CASES[::4]) if quick else (SEEDS, CASES)
    whole = _scores(goodput, cases, seeds)
    result: dict[str, Any] = {
        "cases": len(cases),
        "seeds": seeds,
        "whole": round(fmean(whole.values()), 4),
        "by_case": {name: round(each, 3) for name, each in whole.items()},
        "beg": round(fmean(_scores(beg, cases, seeds).values()), 4),
        "without": {},
    }
    for part, build in PARTS.items():
        scores = _scores(build, cases, seeds)
        losses = {name: whole[name] - scores[name] for name in whole}
        worst = max(losses, key=lambda name: losses[name])
        result["without"][part] = {
            "ratio": round(fmean(scores.values()), 4),
            "loss": round(fmean(losses.values()), 4),
            "most_where": f"{losses[worst]:.1%}, {worst}",
        }
        print(f"without {part}: {result['without'][part]}", flush=True)
    return {"ablation": result}


def _scores(build: Build, cases: tuple[Case, ...], seeds: int) -> dict[str, float]:
    return {case.name: score(case, lambda case, seed: Tuned(build(case, seed)), seeds) for case in cases}
