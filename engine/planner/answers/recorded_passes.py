"""What decode steps of a recorded run took, beside what a table of costs says of them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.events import ArmStatistics
from engine.planner.answers.least_squares import not_negative
from engine.planner.answers.recorded_run import RecordedStep
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.cost_table import CostTable

LEAST_PULLS = 8
"""Of a strategy at a batch size: fewer tell of chance."""
DOUBT = 0.01
"""Weight of the belief that all passes are off by one factor, as a share of that of all pulls."""


def corrected(costs: CostTable, steps: Sequence[RecordedStep], prompt: float) -> CostTable:
    """``costs`` with passes of the target and of the drafter each by a factor, and seconds that a decode step takes whatever its size, by
    least squares of the relative error over all strategies and batch sizes that the run has used; as they are if it has hardly drafted.
    What the drafter reads to catch up counts as part of the steps; all requests are taken to be as far as they are on average."""
    used_often = _used(steps)
    if not any(strategy != OFF for strategy, _ in used_often):
        return costs
    context = prompt + _position(steps)
    rows, seconds, pulls = [], [], []
    for strategy, used in used_often:
        at = Context(max(1, round(used.requests / used.pulls)), context)
        target = costs.target(at.batch, strategy.verify + 1, at.length)
        rows.append((target, costs.seconds(strategy, at) - target, 1.0))
        seconds.append(used.seconds / used.pulls)
        pulls.append(used.pulls)
    passes, taken = np.array(rows), np.array(seconds)
    weights = np.sqrt(np.array(pulls) / sum(pulls))
    factor = float((weights**2 * taken / passes[:, :2].sum(1)).sum())
    beliefs = DOUBT**0.5 * np.diag((1 / factor, 1 / factor, 1 / float(np.median(taken))))
    measured = np.concatenate([passes / taken[:, None] * weights[:, None], beliefs])
    target, draft, once = not_negative(measured, np.concatenate([weights, DOUBT**0.5 * np.array((1.0, 1.0, 0.0))]))
    return CostTable(
        replace(costs.target, seconds=(np.asarray(costs.target.seconds) * target + once).tolist()),
        replace(costs.draft, seconds=(np.asarray(costs.draft.seconds) * draft).tolist()),
    )


def _position(steps: Sequence[RecordedStep]) -> float:
    """Tokens of its response that a request has at a decode step, on average."""
    lengths = np.concatenate([np.array(step.lengths, float) for step in steps])
    return float((lengths**2).sum() / 2 / max(lengths.sum(), 1.0))


def _used(steps: Sequence[RecordedStep]) -> list[tuple[Strategy, ArmStatistics]]:
    """By strategy and batch size, those that were used often enough."""
    found: dict[tuple[str, int], ArmStatistics] = {}
    for arm in (arm for step in steps for arm in step.arms):
        key = arm.strategy, arm.bucket
        found[key] = found[key].plus(arm) if key in found else arm
    often = (arm for arm in found.values() if arm.pulls >= LEAST_PULLS and arm.seconds > 0)
    return [(Strategy.named(arm.strategy), arm) for arm in often]
