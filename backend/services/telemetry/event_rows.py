"""One event -> the rows that show it."""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from backend.database import storable_number, storable_text
from backend.models import Base, Decoding, DrafterSession, LogLine, Metric, PretrainingRound, Rollout, Sample, Speculation, WorkerSpan
from engine import events
from engine.events import AnyEvent

Rows = dict[type[Base], list[dict[str, Any]]]
MACHINES = "system/"
TOP = tuple(f"top{most}_{when}" for most in (1, 3) for when in ("before", "after"))
NUMBERS = ("loss", "held_out_before", "held_out_after", "mix_distance", "noise", *TOP)
PRETRAINED_NUMBERS = ("loss", "held_out", "top1", "top3", "accept_length")


STARTING_UP = {
    "starting_workers": "starting the workers",
    "measuring_costs": "measuring what decoding costs on this machine, unless that is known",
    "first_responses": "the first responses, to pretrain the drafter on",
    "first_round": "the first round of pretraining the drafter, of this attempt",
    "first_rollout": "the first rollout: {} responses",
}


def percentile(ordered: list[int], share: float) -> int:
    """Nearest rank: the smallest value that at least ``share`` of ``ordered`` does not exceed; 0 of nothing."""
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1] if ordered else 0


def unmeasured(config: Mapping[str, Any]) -> frozenset[str]:
    """Metrics that a run of this configuration has no value of: without a KL term nobody looks up the start policy's log-probs. Files of
    earlier versions have 0 there."""
    algorithm = config.get("algorithm")
    without_kl = isinstance(algorithm, Mapping) and algorithm.get("kl_coefficient") == 0
    return frozenset({"kl"}) if without_kl else frozenset()


def step_metrics(event: events.StepFinished, missing: frozenset[str] = frozenset()) -> dict[str, float | None]:
    """All scalars of a step by series key; phases are ``phase/<name>``, the whole is ``step_seconds``. Of the ``missing`` ones the value is
    None, whatever is told."""
    phases = {f"phase/{name}": storable_number(seconds) for name, seconds in event.phases.items()}
    metrics = {name: storable_number(value) for name, value in event.metrics.items()}
    return metrics | dict.fromkeys(missing) | phases | {"step_seconds": storable_number(event.seconds)}


def step_line(event: events.StepFinished) -> str:
    """``took 2.31 s (rollout 1.80 s): reward 0.412, accept length 2.31, 96 tokens a response``."""
    rollout = event.phases.get("rollout")
    took = f"took {event.seconds:.2f} s" + ("" if rollout is None else f" (rollout {rollout:.2f} s)")
    words = {"reward_mean": "reward {:.3f}", "accept_length": "accept length {:.2f}", "response_tokens": "{:.0f} tokens a response"}
    told = [form.format(event.metrics[name]) for name, form in words.items() if name in event.metrics]
    return f"{took}: {', '.join(told)}" if told else took


def run_summary(values: dict[str, float | None]) -> dict[str, float | None]:
    """A run's summary: its latest metrics but those of machines, and the shares that follow from them."""
    return {name: value for name, value in values.items() if not name.startswith(MACHINES)} | {
        "rollout_share": ratio(values.get("phase/rollout"), values.get("step_seconds")),
        "harvest": ratio(values.get("trained_seconds"), values.get("idle_seconds")),
    }


def starting_up(event: events.StartingUp, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is kept of it; a phase that goes on began when it was told of first."""
    goes_on = before is not None and before["phase"] == event.phase and event.goes_on
    return {"phase": event.phase, "since": before["since"] if goes_on and before else event.time, "done": event.done, "total": event.total}


def pretraining_round(event: events.DrafterPretrained) -> dict[str, Any]:
    """What is kept of a round, with null for what is no finite number."""
    return event.model_dump(exclude={"seq", "version", "kind"}) | {
        name: storable_number(getattr(event, name)) for name in PRETRAINED_NUMBERS
    }


def ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def event_rows(run_id: str, event: AnyEvent, missing: frozenset[str] = frozenset()) -> Rows:
    """The rows of ``event`` by table; none for an event that only moves the run's progress. ``missing``: see ``step_metrics``."""
    out: Rows = defaultdict(list)
    key = {"run_id": run_id, "seq": event.seq}
    match event:
        case events.StepFinished():
            out[Metric] = [
                {"run_id": run_id, "key": name, "step": event.step, "value": value} for name, value in step_metrics(event, missing).items()
            ]
            out[LogLine].append(log_line(run_id, event.time, "info", "step", step_line(event), event.step))
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
            became = f"drafter version {event.drafter_version} is published" if event.published else "the trained drafter is not published"
            out[LogLine].append(log_line(run_id, event.time, "info", "drafter", f"{became}: {event.reason}", event.step))
        case events.DrafterPretrained():
            out[PretrainingRound].append({"run_id": run_id} | pretraining_round(event))
            if event.done:
                learned = f"{event.seconds / 60:.1f} minutes, {event.round} rounds, {event.responses} responses"
                message = f"the drafter is pretrained: {learned}, expected accept length {event.accept_length:.2f}"
                out[LogLine].append(log_line(run_id, event.time, "info", "pretrained", message))
        case events.Sample():
            texts = {"prompt": storable_text(event.prompt), "response": storable_text(event.response)}
            told = event.model_dump(include={"step", "pieces", "prompt_number", "group_rewards", "tokens", "truncated"})
            figures = {name: storable_number(getattr(event, name)) for name in ("reward", "advantage")}
            out[Sample].append(key | texts | told | figures)
        case events.Alarm():
            out[LogLine].append(log_line(run_id, event.time, "alarm", event.code, event.message, event.step))
        case events.StartingUp() if not event.goes_on:
            out[LogLine].append(log_line(run_id, event.time, "info", "starting_up", STARTING_UP[event.phase].format(event.total)))
        case events.Log():
            out[LogLine].append(log_line(run_id, event.time, event.level, event.code, event.message))
        case events.RunStarted():
            begin = f"at step {event.first_step} of {event.steps}" if event.steps else "to pretrain a drafter"
            workers = "1 worker" if event.workers == 1 else f"{event.workers:,} workers"
            message = f"engine started {begin} with {workers} on {event.device}"
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
    rewards = event.rewards if event.rewards and all(map(math.isfinite, event.rewards)) else None
    told = {"lengths": event.lengths, "rewards": rewards, "truncated": event.truncated, "max": longest}
    return {"run_id": run_id, "step": event.step} | told | shares
