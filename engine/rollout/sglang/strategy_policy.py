"""Our tuner in each of SGLang's scheduler processes: it chooses every decode step's strategy, and learns what the step brought."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.config import SpeculationConfig
from engine.rollout.decoding_timeline import DecodingTimeline
from engine.rollout.sglang.draft_counts import DraftCounts
from engine.speculation.speculator import Speculator, StepPlan
from engine.speculation.strategy import OFF, Strategy
from engine.speculation.tuner.cost_table import draft_levels

UNLIMITED = 2**20
Agree = Callable[[int], int]


@dataclass(frozen=True)
class UnnamedRequest:
    """A running request; SGLang tells how many there are and not which, and keeps the drafter abreast by itself."""

    id: int
    group: int = 0
    length: int = 0
    generated: int = 0
    drafted: int = 0


@dataclass(frozen=True)
class StartedStep:
    """A decode step that was begun: of ``plan``, but for the ``strategy`` that the ranks agreed on."""

    plan: StepPlan
    strategy: Strategy
    batch: int
    began: float


class StrategyPolicy:
    """Is asked before each decode step, and told after it. A step's result may come after the next step was begun (overlap).

    ``agree`` makes all ranks of a tensor-parallel group decode alike: it returns rank 0's decision, a place in ``strategies``, on each.
    ``most`` requests run at once. What happened is counted, and learnt from, on every rank; rank 0's is what is told.
    """

    def __init__(
        self,
        config: SpeculationConfig,
        seed: int,
        most: int,
        agree: Agree = lambda choice: choice,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.speculator = self._active = Speculator(config, seed)
        self.strategies = (OFF, *map(Strategy.of, config.strategies))
        self._busiest = int(config.threshold * (1 + config.hysteresis))
        self._agree, self._clock = agree, clock
        self._slots = [UnnamedRequest(index) for index in range(most)]
        self._begun: deque[StartedStep] = deque()
        self._admitted = 0
        self._ended = 0.0
        self._counts, self._timeline = DraftCounts(), DecodingTimeline()

    def graph_sizes(self, strategy: Strategy, sizes: Sequence[int]) -> list[int]:
        """The batch sizes, of all ``sizes``, to record graphs of; where speculation is off, none for drafts (but for a batch padded to the
        next size)."""
        if strategy == OFF:
            return sorted(sizes)
        fitting = [size for size in sizes if size <= self._busiest]
        return sorted(sizes)[: len(fitting) + 1]

    def begin(self, limit: int = UNLIMITED, learn: bool = True) -> None:
        """A rollout starts. Without ``learn`` nothing but alarms is kept of it."""
        self._active = self.speculator if learn else self.speculator.forgetful()
        self._active.begin(limit)
        self._begun.clear()
        self._admitted = 0

    def begin_step(self, batch: int) -> Strategy:
        """What the decode step of ``batch`` requests that begins now shall do."""
        for slot in self._slots[self._admitted : batch]:
            self._active.admit(slot.id, (), ())
        self._admitted = max(self._admitted, batch)
        plan = self._active.plan(self._slots[:batch], learned=True)
        strategy = self.strategies[self._agree(self.strategies.index(plan.shape or OFF))]
        self._begun.append(StartedStep(plan, strategy, batch, self._clock()))
        self._timeline.add(batch, str(strategy))
        return strategy

    def end_step(self, accepted: Sequence[int]) -> None:
        """The oldest step that was begun is done: request i kept ``accepted[i]`` drafts."""
        step = self._begun.popleft() if self._begun else None
        now = self._clock()
        elapsed, self._ended = now - max(self._ended, step.began if step else now), now
        if step is None or step.batch != len(accepted):
            self._begun.clear()  # steps were dropped on the way: rather learn nothing than something wrong
            return
        self._counts.add(draft_levels(step.strategy), accepted)
        if step.strategy == (step.plan.shape or OFF):
            self._active.record(step.plan, accepted, [drafts + 1 for drafts in accepted], elapsed)

    def take_statistics(self) -> dict[str, Any]:
        """See ``DraftCounts.take``, with arms, alarms and moments, since the last call; plain JSON values."""
        return self._counts.take() | {
            "arms": [arm.model_dump() for arm in self.speculator.tuner.take_arms()],
            "alarms": [[notice.code, notice.message] for notice in self.speculator.take_alarms()],
            "moments": self._timeline.take(),
        }
