"""A simulated run in the run's own events, so that whatever draws a run draws this one."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from engine.config import RunConfig
from engine.events import (
    AnyEvent,
    CheckpointSaved,
    Decoding,
    DrafterTrained,
    RolloutFinished,
    RunFinished,
    RunStarted,
    Speculation,
    StepFinished,
    WorkerSpan,
)
from engine.planner.simulation.acceptance import rates
from engine.planner.simulation.run import Assumptions, SimulatedStep
from engine.rollout.decoding_timeline import Moment, thinned
from engine.speculation.strategy import Strategy

DRAWN = 24
"""Workers whose decoding is told of: as many as a chart has lanes for."""
DEVICE = "simulated"


def events(
    config: RunConfig, assumptions: Assumptions, steps: Iterable[SimulatedStep], parameters: int, began: float
) -> Iterator[AnyEvent]:
    """Of a run that begins at ``began``, in seconds since the epoch."""
    workers, count, now, version = assumptions.workers, 0, began, 0
    yield RunStarted(
        time=now, first_step=0, steps=config.algorithm.steps, workers=workers, model_parameters=parameters, device=DEVICE, packages={}
    )
    for step in steps:
        yield from _spans(step, now, workers)
        yield from _decoding(step, now)
        end = now + step.seconds
        lengths = step.generated[step.shares.group >= 0]
        cut = int((lengths >= config.rollout.max_new_tokens).sum())
        yield RolloutFinished(time=now + step.rollout_end, step=step.index, lengths=lengths.tolist(), truncated=cut)
        if config.speculation.enabled:
            yield _speculation(step, assumptions, end)
        if step.quality.version != version:
            yield _drafter(step, assumptions, end)
        yield _summary(step, end)
        if step.checkpoint:
            yield CheckpointSaved(time=end, step=step.index, path="", seconds=step.checkpoint)
        now, count, version = end + step.checkpoint, step.index + 1, step.quality.version
    yield RunFinished(time=now, steps=count)


def _spans(step: SimulatedStep, now: float, workers: int) -> Iterator[WorkerSpan]:
    end = now + step.rollout_end
    for span in step.tail.spans:
        yield WorkerSpan(time=end, step=step.index, worker=span.worker, state=span.activity, start=now + span.start, end=now + span.end)
    updated = now + step.seconds - step.phases.get("evaluation", 0.0)
    for worker in range(workers):
        yield WorkerSpan(time=updated, step=step.index, worker=worker, state="UPDATE", start=end, end=updated)
        if "evaluation" in step.phases:
            yield WorkerSpan(time=updated, step=step.index, worker=worker, state="EVALUATION", start=updated, end=now + step.seconds)


def _decoding(step: SimulatedStep, now: float) -> Iterator[Decoding]:
    for worker in range(min(DRAWN, len(step.decoded.clock))):
        clock, running = step.decoded.clock[worker], step.decoded.running[worker]
        places = np.flatnonzero(running)
        begins = [0.0, *clock[places[:-1]].tolist()]
        moments = [Moment(at, batch, step.choices[batch].label) for at, batch in zip(begins, running[places].tolist(), strict=True)]
        moments = [moment for moment in moments if moment.time < step.rollout_end]
        moments.append(Moment(min(float(clock[-1]), step.rollout_end), 0, "off"))
        changes = [moments[0], *(then for before, then in pairwise(moments) if then[1:] != before[1:])]
        points = [(round(time, 3), batch, label) for time, batch, label in thinned(changes)]
        yield Decoding(time=now + step.rollout_end, step=step.index, worker=worker, start=now, points=points)


def _speculation(step: SimulatedStep, assumptions: Assumptions, end: float) -> Speculation:
    """Counts of the decode steps that the tuner decided one by one."""
    acceptance, drafted, accepted = assumptions.calibration.acceptance, [0.0] * 32, [0.0] * 32
    first = step.quality.first(acceptance)
    for arm in step.arms:
        if arm.strategy == "off":
            continue
        strategy = Strategy.named(arm.strategy)
        reached = float(arm.requests)
        for position, rate in enumerate(rates(strategy, acceptance, first)):
            drafted[position] += reached
            reached *= rate
            accepted[position] += reached
    count = sum(value >= 1 for value in drafted)
    return Speculation(
        time=end,
        step=step.index,
        arms=step.arms,
        drafted_by_position=[round(value) for value in drafted[:count]],
        accepted_by_position=[round(value) for value in accepted[:count]],
        untrained=step.untrained,
    )


def _drafter(step: SimulatedStep, assumptions: Assumptions, end: float) -> DrafterTrained:
    first = step.quality.first(assumptions.calibration.acceptance)
    tokens = round(max(step.tail.trained.values(), default=0.0) * assumptions.phases.trained_tokens)
    return DrafterTrained(
        time=end,
        step=step.index,
        drafter_version=step.quality.version,
        published=True,
        reason=DEVICE,
        microsteps=max(1, tokens // 1024),
        tokens=tokens,
        loss=0.0,
        held_out_before=step.first,
        held_out_after=first,
    )


def _summary(step: SimulatedStep, end: float) -> StepFinished:
    tokens = int(step.generated.sum()) - int(step.shares.begun.sum())
    metrics = {
        "response_tokens": tokens / max(int((step.shares.group >= 0).sum()), 1),
        "tokens_per_second": tokens / step.rollout_end,
        "accept_length": step.accept_length,
        "idle_seconds": step.tail.seconds("IDLE", "TRAINING"),
        "trained_seconds": step.tail.seconds("TRAINING"),
        "drafter_version": float(step.quality.version),
        "unused_tokens": float(step.unused),
    }
    return StepFinished(time=end, step=step.index, seconds=step.seconds, phases=step.phases, metrics=metrics)
