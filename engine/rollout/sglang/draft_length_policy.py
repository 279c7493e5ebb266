"""Our tuner where SGLang asks how many tokens to draft: its adaptive policy, in each scheduler process."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.config import SpeculationConfig
from engine.rollout.decoding_timeline import DecodingTimeline
from engine.rollout.sglang.draft_counts import DraftCounts
from engine.rollout.sglang.supported_speculation import chain_steps
from engine.speculation.speculator import Speculator, StepPlan
from engine.speculation.strategy import OFF

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
    """A decode step that was begun: of ``plan``, but for what the other ranks agreed on."""

    plan: StepPlan
    steps: int
    batch: int
    began: float


class DraftLengthPolicy:
    """Has the methods of SGLang's ``AdaptiveSpecPolicy``. A step's result may come after the next step was begun (overlap).

    ``agree`` makes all ranks of a tensor-parallel group decode alike: it returns rank 0's decision on each. ``most`` requests run at
    once. What happened is counted, and learnt from, on every rank; rank 0's is what is told.
    """

    def __init__(
        self,
        config: SpeculationConfig,
        seed: int,
        most: int,
        agree: Agree = lambda steps: steps,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.speculator = self._active = Speculator(config, seed)
        self.candidate_steps = chain_steps(config)
        self._busiest = int(config.threshold * (1 + config.hysteresis))
        self._agree, self._clock = agree, clock
        self._slots = [UnnamedRequest(index) for index in range(most)]
        self._begun: deque[StartedStep] = deque()
        self._admitted = 0
        self._ended = 0.0
        self._graph_sizes: list[int] | None = None
        self._counts, self._timeline = DraftCounts(), DecodingTimeline()

    def set_cuda_graph_bs(self, cuda_graph_bs: list[int] | None) -> None:
        self._graph_sizes = sorted(cuda_graph_bs) if cuda_graph_bs else None

    def cuda_graph_bs_for_step(self, step: int) -> list[int] | None:
        """The batch sizes to record graphs of; where speculation is off, none for drafts (but for a batch padded to the next size)."""
        sizes = self._graph_sizes
        if sizes is None or step == 0:
            return sizes
        fitting = [size for size in sizes if size <= self._busiest]
        return sizes[: len(fitting) + 1]

    def begin(self, limit: int = UNLIMITED, learn: bool = True) -> None:
        """A rollout starts. Without ``learn`` nothing but alarms is kept of it."""
        self._active = self.speculator if learn else self.speculator.forgetful()
        self._active.begin(limit)
        self._begun.clear()
        self._admitted = 0

    def get_steps_for_batch(self, batch_size: int) -> int:
        """How many tokens to draft in the step that begins now."""
        for slot in self._slots[self._admitted : batch_size]:
            self._active.admit(slot.id, (), ())
        self._admitted = max(self._admitted, batch_size)
        plan = self._active.plan(self._slots[:batch_size], learned=True)
        shape = plan.shape or OFF
        steps = self._agree(shape.depth)
        self._begun.append(StartedStep(plan, steps, batch_size, self._clock()))
        self._timeline.add(batch_size, str(shape))
        return steps

    def on_verify_complete(self, num_correct_drafts_per_req: Sequence[int], batch_size: int) -> None:  # noqa: ARG002
        """The oldest step that was begun is done. None: the next step is asked for when it begins."""
        step = self._begun.popleft() if self._begun else None
        now = self._clock()
        elapsed, self._ended = now - max(self._ended, step.began if step else now), now
        if step is None or step.batch != len(num_correct_drafts_per_req):
            self._begun.clear()  # steps were dropped on the way: rather learn nothing than something wrong
            return
        self._counts.add(step.steps, num_correct_drafts_per_req)
        if step.steps == (step.plan.shape or OFF).depth:
            kept = [drafts + 1 for drafts in num_correct_drafts_per_req]
            self._active.record(step.plan, num_correct_drafts_per_req, kept, elapsed)

    def take_statistics(self) -> dict[str, Any]:
        """See ``DraftCounts.take``, with arms, alarms and moments, since the last call; plain JSON values."""
        return self._counts.take() | {
            "arms": [arm.model_dump() for arm in self.speculator.tuner.take_arms()],
            "alarms": [[notice.code, notice.message] for notice in self.speculator.take_alarms()],
            "moments": self._timeline.take(),
        }
