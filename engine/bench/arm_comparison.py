"""What the arms of whole runs say beside each other. Of several seeds the median stands with the least and the most."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from engine.bench.arms import Runs
from engine.bench.runs import harvest, metric, sessions, steps
from engine.events import AnyEvent

PHASES = ("rollout", "inference", "update")
ESTIMATED = {"plain": "decode_seconds/plain", "ngram": "decode_seconds/ngram", "static": "decode_seconds/untrained"}
"""Of an arm, the metric by which a run with TLT says what decoding would have taken like that."""


def compared(runs: Sequence[Runs], arm: str) -> dict[str, Any]:
    """``arm`` against plain, over all seeds. Its time has the drafter's in it: training, publishing and loading.

    Medians over seeds: ``s``, the rollout's share of plain's time, ``r``, the rollout's speed-up, and ``e2e``, the whole run's.
    """
    rewards = [[metric(events[name], "reward_mean") for name in ("plain", arm)] for events in runs]
    rollout = spread([_phase(events["plain"], "rollout") / _phase(events[arm], "rollout") for events in runs])
    whole = spread([_seconds(events["plain"]) / _seconds(events[arm]) for events in runs])
    return {
        "s": rollout_share([events["plain"] for events in runs])["median"],
        "r": rollout["median"],
        "e2e": whole["median"],
        "e2e_min": whole["least"],
        "e2e_max": whole["most"],
        "reward_final": [fast[-1] for _, fast in rewards],
        "rollout_speedup": rollout,
        **step_times([events[arm] for events in runs]),
        "accept_length": [metric(events[arm], "accept_length") for events in runs],
        "harvest": [harvest(steps(events[arm])) for events in runs],
        "versions": [sum(session.published for session in sessions(events[arm])) for events in runs],
        "rewards": [fast for _, fast in rewards],
        "rewards_plain": [plain for plain, _ in rewards],
        "same_rewards": all(plain == fast for plain, fast in rewards),
    }


def step_times(runs: Sequence[list[AnyEvent]]) -> dict[str, Any]:
    """Of one arm, a run for each seed: seconds of a step and of its rollout, ``not_rollout``, the share of the time that is none, and of
    all the runs' time together the ``shares`` of phases; reward, sync and evaluation are ``other``."""
    whole = sum(_seconds(events) for events in runs)
    shares = {phase: sum(_phase(events, phase) for events in runs) / whole for phase in PHASES}
    return {
        "step_s": spread([_seconds(events) / len(steps(events)) for events in runs]),
        "rollout_s": spread([_phase(events, "rollout") / len(steps(events)) for events in runs]),
        "not_rollout": spread([1 - _phase(events, "rollout") / _seconds(events) for events in runs]),
        "shares": {phase: round(share, 3) for phase, share in (shares | {"other": 1 - sum(shares.values())}).items()},
    }


def rollout_share(runs: Sequence[list[AnyEvent]]) -> dict[str, float]:
    """Of one arm's time, a run for each seed."""
    return spread([_phase(events, "rollout") / _seconds(events) for events in runs])


def training_step_ratios(trained: Sequence[AnyEvent], static: Sequence[AnyEvent]) -> list[float]:
    """Of the steps in which idle workers trained the drafter: how long each took, against the same step with a drafter that is never
    trained. What earlier training brings is in it; ``bench spot`` tells what training costs alone."""
    pairs = zip(steps(trained), steps(static), strict=True)
    return [one.seconds / other.seconds for one, other in pairs if one.metrics["trained_seconds"] > 0]


def estimates(runs: Sequence[Runs]) -> dict[str, dict[str, float]]:
    """How true it is what TLT's events say of other ways to decode (see ``engine.telemetry.decode_savings``): their estimate over what the
    rollouts of that arm took, in the steps that have one."""
    found: dict[str, dict[str, float]] = {}
    for arm, name in ESTIMATED.items():
        pairs = [_estimated(events["tlt"], events[arm], name) for events in runs if arm in events]
        if pairs and all(pairs):
            found[arm] = spread([sum(estimate for estimate, _ in seed) / sum(taken for _, taken in seed) for seed in pairs])
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Of one value a seed."""
    return {"median": round(median(values), 3), "least": round(min(values), 3), "most": round(max(values), 3)}


def _estimated(tlt: Sequence[AnyEvent], other: Sequence[AnyEvent], name: str) -> list[tuple[float, float]]:
    pairs = zip(steps(tlt), steps(other), strict=True)
    return [(one.metrics[name], another.phases["rollout"]) for one, another in pairs if name in one.metrics]


def _seconds(events: Sequence[AnyEvent]) -> float:
    return sum(step.seconds for step in steps(events))


def _phase(events: Sequence[AnyEvent], name: str) -> float:
    return sum(step.phases[name] for step in steps(events))
