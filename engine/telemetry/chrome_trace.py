"""A run's events as a Chrome trace: the timeline of workers, RL steps and the drafter, for ui.perfetto.dev or chrome://tracing.

The JSON object form of the Trace Event Format; times are microseconds since the first event.
"""

import json
from collections.abc import Iterable, Iterator
from functools import singledispatch
from pathlib import Path
from typing import Any

from engine.checkpoint.run_folder import EVENTS
from engine.errors import DataError
from engine.events import Alarm, AnyEvent, CheckpointSaved, Decoding, DrafterTrained, Event, RunStarted, StepFinished, WorkerSpan, read

TraceEntry = dict[str, Any]
LOOP = 0
"""The row of the training loop; worker n has row n + 1."""


def write_trace(run: Path, out: Path) -> int:
    """Writes the trace of run folder ``run``; returns the number of its entries. DataError if there are no events in it."""
    source = run / EVENTS
    if not source.is_file():
        raise DataError(f"{run}: no events.jsonl in it; give the folder of a run")
    entries = chrome_trace(read(source))
    out.write_text(json.dumps({"traceEvents": entries, "displayTimeUnit": "ms"}), encoding="utf-8")
    return len(entries)


def chrome_trace(events: Iterable[AnyEvent]) -> list[TraceEntry]:
    """Entries by time, after those that name the rows. A resumed run's attempts follow each other in it."""
    entries = sorted((entry for event in events for entry in _entries(event)), key=lambda entry: entry["ts"])
    first = entries[0]["ts"] if entries else 0.0
    rows = sorted({entry["tid"] for entry in entries})
    titles = {row: "training loop" if row == LOOP else f"worker {row - 1}" for row in rows}
    names = [{"ph": "M", "name": "thread_name", "pid": 0, "tid": row, "args": {"name": title}} for row, title in titles.items()]
    return [*names, *({**entry, "ts": entry["ts"] - first} for entry in entries)]


@singledispatch
def _entries(_: Event) -> Iterator[TraceEntry]:
    """Of an event that has no place in time of its own."""
    yield from ()


@_entries.register
def _span(event: WorkerSpan) -> Iterator[TraceEntry]:
    yield _slice(event.state, event.worker + 1, event.start, event.end - event.start, step=event.step)


@_entries.register
def _step(event: StepFinished) -> Iterator[TraceEntry]:
    """A step with its phases below it, and its numbers as counters."""
    start = event.time - event.seconds
    yield _slice(f"step {event.step}", LOOP, start, event.seconds, **event.metrics)
    for name, seconds in event.phases.items():
        yield _slice(name, LOOP, start, seconds)
        start += seconds
    for name in ("accept_length", "reward_mean"):
        if name in event.metrics:
            yield _entry("C", name, LOOP, event.time, args={name: event.metrics[name]})


@_entries.register
def _decoding(event: Decoding) -> Iterator[TraceEntry]:
    for time, what, number in event.marks:
        yield _entry("i", what, event.worker + 1, event.start + time, s="t", args={"step": event.step, "number": number})


@_entries.register
def _checkpoint(event: CheckpointSaved) -> Iterator[TraceEntry]:
    yield _slice("checkpoint", LOOP, event.time - event.seconds, event.seconds, path=event.path)


@_entries.register(RunStarted)
@_entries.register(DrafterTrained)
@_entries.register(Alarm)
def _moment(event: RunStarted | DrafterTrained | Alarm) -> Iterator[TraceEntry]:
    told = event.model_dump(mode="json", exclude={"seq", "time", "version", "kind"})
    yield _entry("i", getattr(event, "code", event.kind), LOOP, event.time, s="p", args=told)


def _slice(name: str, row: int, start: float, seconds: float, **arguments: Any) -> TraceEntry:
    return _entry("X", name, row, start, dur=seconds * 1e6, args=arguments)


def _entry(phase: str, name: str, row: int, time: float, **more: Any) -> TraceEntry:
    return {"ph": phase, "name": name, "pid": 0, "tid": row, "ts": time * 1e6, **more}
