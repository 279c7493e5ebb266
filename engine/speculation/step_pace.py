"""How much longer decode steps take beside a worker that trains than beside one that waits. Pure.

Cores share their memory, and processes on one machine may share cores, so that training in idle time can slow those whom all wait for.
Steps of one worker, of the same strategy, batch and about the same length, while as many others generate, are compared by what the cost
table says: what that is wrong by cancels out.
"""

from collections.abc import Mapping
from math import exp, inf, log
from typing import Literal, NamedTuple

from engine.speculation.strategy import Context, Strategy

Activity = Literal["waiting", "training"]
"""Of workers that are done while others generate."""
LENGTHS = 64
MOST = 1.0
"""Of a log ratio above those of the steps before: in what took longer the machine did something else."""
LEAST_STEPS = 100.0
"""What w waiting and t training steps must weigh, w t / (w + t), before a difference is told: twice as many of each are enough. Single
ones vary by 10 %; did they so independently, it would be good to 1 %."""
FAINTEST = 0.05
"""Steps of a kind, below which they are forgotten altogether."""


class Neighbours(NamedTuple):
    """The other workers: what those do who are done, and how many still generate."""

    activity: Activity
    busy: int


class Pace(NamedTuple):
    """So many ``steps``, and the sum of their log(measured / predicted seconds)."""

    steps: float = 0.0
    log_ratios: float = 0.0

    def plus(self, other: "Pace", weight: float = 1.0) -> "Pace":
        """With ``weight`` times the ``other``."""
        return Pace(self.steps + weight * other.steps, self.log_ratios + weight * other.log_ratios)


class Kind(NamedTuple):
    """Of a step; ``length`` is the mean one in units of LENGTHS, ``busy`` how many others generate."""

    strategy: str
    batch: int
    length: int
    busy: int
    worker: int = 0


Paces = Mapping[Kind, Mapping[Activity, Pace]]


class StepPaces:
    """Of one worker's decode steps, until ``take``. ``neighbours``: what is known of the others; None: nothing that tells anything."""

    def __init__(self) -> None:
        self.neighbours: Neighbours | None = None
        self._paces: dict[Kind, dict[Activity, Pace]] = {}
        self._before = (inf, inf)

    def record(self, strategy: Strategy, context: Context, seconds: float, predicted: float) -> None:
        """A decode step took ``seconds``. The first one only tells what others are to be compared with."""
        neighbours = self.neighbours  # another thread may change it
        if neighbours is None or not (0 < seconds < inf and 0 < predicted < inf):
            return
        activity, busy = neighbours
        ratio, usual = log(seconds / predicted), min(self._before)
        self._before = self._before[1], ratio
        if usual == inf:
            return
        paces = self._paces.setdefault(Kind(str(strategy), context.batch, int(context.length) // LENGTHS, busy), {})
        step = Pace(1.0, min(ratio, usual + MOST))
        paces[activity] = paces.get(activity, Pace()).plus(step)

    def take(self) -> Paces:
        taken, self._paces = self._paces, {}
        return taken


def of_worker(paces: Paces, worker: int) -> Paces:
    """Those of one, as ``worker``'s: one may be slower than the others for good."""
    return {kind._replace(worker=worker): pace for kind, pace in paces.items()}


def added(paces: Paces, others: Paces, weight: float = 1.0) -> Paces:
    """``weight`` times the first, and the others, without what is too faint."""
    keys = {key: None for each in (paces, others) for key in each}
    sums = {key: _added(paces.get(key, {}), others.get(key, {}), weight) for key in keys}
    return {key: found for key, found in sums.items() if sum(pace.steps for pace in found.values()) >= FAINTEST}


def slowdown(paces: Paces) -> float | None:
    """How many times as long a step takes beside training; None where too few steps were seen under both conditions."""
    weights = total = 0.0
    for pace in paces.values():
        waiting, training = pace.get("waiting", Pace()), pace.get("training", Pace())
        if waiting.steps and training.steps:
            weight = waiting.steps * training.steps / (waiting.steps + training.steps)
            weights += weight
            total += weight * (training.log_ratios / training.steps - waiting.log_ratios / waiting.steps)
    return exp(total / weights) if weights >= LEAST_STEPS else None


def _added(paces: Mapping[Activity, Pace], others: Mapping[Activity, Pace], weight: float) -> Mapping[Activity, Pace]:
    return {each: others.get(each, Pace()).plus(paces.get(each, Pace()), weight) for each in {**paces, **others}}
