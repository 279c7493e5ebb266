"""One event -> the rows that show it."""

import math
from collections import defaultdict
from typing import Any

from backend.database import storable_number, storable_text
from backend.models import Base, Decoding, DrafterSession, LogLine, Metric, PretrainingRound, Rollout, Sample, Speculation, WorkerSpan
from engine import events
from engine.events import AnyEvent

Rows = dict[type[Base], list[dict[str, Any]]]
MACHINES = "system/"
TOP = tuple(f"top{most}_{when}" for most in (1, 3) for when in ("before", "after"))
NUMBERS = ("loss", "held_out_before", "held_out_after", "mix_distance", *TOP)
PRETRAINED_NUMBERS = ("loss", "held_out", "top1", "top3", "accept_length")


def percentile(ordered: list[int], share: float) -> int:
    """Nearest rank: the smallest value that at least ``share`` of ``ordered`` does not exceed; 0 of nothing."""
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1] if ordered else 0


def step_metrics(event: events.StepFinished) -> dict[str, float | None]:
    """All scalars of a step by series key; phases are ``phase/<name>``, the whole is ``step_seconds``."""
    phases = {f"phase/{name}": storable_number(seconds) for name, seconds in event.phases.items()}
    return (
        {name: storable_number(value) for name, value in event.metrics.items()} | phases | {"step_seconds": storable_number(event.seconds)}
    )


def run_summary(values: dict[str, float | None]) -> dict[str, float | None]:
    """A run's summary: its latest metrics but those of machines, and the shares that follow from them."""
    return {name: value for name, value in values.items() if not name.startswith(MACHINES)} | {
        "rollout_share": ratio(values.get("phase/rollout"), values.get("step_seconds")),
        "harvest": ratio(values.get("trained_seconds"), values.get("idle_seconds")),
    }


def pretraining_round(event: events.DrafterPretrained) -> dict[str, Any]:
    """What is kept of a round, with null for what is no finite number."""
    return event.model_dump(exclude={"seq", "version", "kind"}) | {
        name: storable_number(getattr(event, name)) for name in PRETRAINED_NUMBERS
    }


def ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def event_rows(run_id: str, event: AnyEvent) -> Rows:
    """The rows of ``event`` by table; none for an event that only moves the run's progress."""
    out: Rows = defaultdict(list)
    key = {"run_id": run_id, "seq": event.seq}
    match event:
        case events.StepFinished():
            out[Metric] = [
                {"run_id": run_id, "key": name, "step": event.step, "value": value} for name, value in step_metrics(event).items()
            ]
        case events.RolloutFinished():
            out[Rollout].append(_rollout(run_id, event))
        case events.Speculation():
            out[Speculation].append({"run_id": run_id} | event.model_dump(exclude={"seq", "time", "version", "kind"}))
        case events.WorkerSpan():
            out[WorkerSpan].append(key | event.model_dump(exclude={"seq", "time", "version", "kind"}))
        case events.Decoding():
            out[Decoding].append({"run_id": run_id} | event.model_dump(exclude={"seq", "time", "version", "kind"}))
        case events.DrafterTrained():
            numbers = {name: storable_number(getattr(event, name)) for name in NUMBERS}
            out[DrafterSession].append(key | event.model_dump(exclude={"seq", "version", "kind"}) | numbers)
        case events.DrafterPretrained():
            out[PretrainingRound].append({"run_id": run_id} | pretraining_round(event))
            if event.done:
                learned = f"{event.seconds / 60:.1f} minutes, {event.round} rounds, {event.responses} responses"
                message = f"the drafter is pretrained: {learned}, expected accept length {event.accept_length:.2f}"
                out[LogLine].append(log_line(run_id, event.time, "info", "pretrained", message))
        case events.Sample():
            texts = {"prompt": storable_text(event.prompt), "response": storable_text(event.response)}
            out[Sample].append(key | texts | {"step": event.step, "reward": storable_number(event.reward), "pieces": event.pieces})
        case events.Alarm():
            out[LogLine].append(log_line(run_id, event.time, "alarm", event.code, event.message, event.step))
        case events.Log():
            out[LogLine].append(log_line(run_id, event.time, event.level, event.code, event.message))
        case events.RunStarted():
            begin = f"at step {event.first_step} of {event.steps}" if event.steps else "to pretrain a drafter"
            message = f"engine started {begin} with {event.workers} workers on {event.device}"
            if event.rollout_engine:
                message += f"; {event.rollout_engine} generates the responses: {event.engine_reason}"
            out[LogLine].append(log_line(run_id, event.time, "info", "started", message))
        case events.CheckpointSaved():
            out[LogLine].append(log_line(run_id, event.time, "info", "checkpoint", f"saved {event.path}", event.step))
    return out


def log_line(run_id: str, time: float, level: str, code: str, message: str, step: int | None = None) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "source": "engine",
        "time": time,
        "level": level,
        "code": code,
        "message": storable_text(message),
        "step": step,
    }


def _rollout(run_id: str, event: events.RolloutFinished) -> dict[str, Any]:
    ordered = sorted(event.lengths)
    shares = {f"p{percent}": percentile(ordered, percent / 100) for percent in (50, 75, 90)}
    longest = ordered[-1] if ordered else 0
    return {"run_id": run_id, "step": event.step, "lengths": event.lengths, "truncated": event.truncated, "max": longest} | shares
