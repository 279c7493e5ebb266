"""A run's timeline as a Chrome trace, for ui.perfetto.dev: what workers did, and the phases of each step. Times are microseconds since the
first of them."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dashboard.analysis.series import finite
from dashboard.analysis.step_phases import PHASES
from longtail.schemas.telemetry import Decoding, Series, WorkerSpan

LOOP = 0
"""The row of the training loop; worker n has row n + 1."""
Entry = dict[str, Any]


def chrome_trace(spans: Sequence[WorkerSpan], decoding: Sequence[Decoding], metrics: Mapping[str, Series]) -> str:
    """In the JSON object form of the Trace Event Format."""
    entries = sorted([*_spans(spans), *_marks(decoding), *_phases(spans, metrics)], key=lambda entry: entry["ts"])
    first = entries[0]["ts"] if entries else 0.0
    rows = sorted({entry["tid"] for entry in entries})
    titles = {row: "training loop" if row == LOOP else f"worker {row - 1}" for row in rows}
    names = [{"ph": "M", "name": "thread_name", "pid": 0, "tid": row, "args": {"name": title}} for row, title in titles.items()]
    return json.dumps({"traceEvents": [*names, *({**entry, "ts": entry["ts"] - first} for entry in entries)], "displayTimeUnit": "ms"})


def _spans(spans: Sequence[WorkerSpan]) -> Iterator[Entry]:
    for span in spans:
        yield _slice(span.state, span.worker + 1, span.start, span.end - span.start, step=span.step)


def _marks(decoding: Sequence[Decoding]) -> Iterator[Entry]:
    for item in decoding:
        for after, what, number in item.marks or ():
            yield _entry("i", what, item.worker + 1, item.start + after, s="t", args={"step": item.step, "number": number})


def _phases(spans: Sequence[WorkerSpan], metrics: Mapping[str, Series]) -> Iterator[Entry]:
    """One after the other from where the first worker began; of steps that were told one by one."""
    seconds = {name: dict(finite(metrics.get(f"phase/{name}", Series()))) for name in PHASES}
    starts: defaultdict[int, list[float]] = defaultdict(list)
    for span in spans:
        starts[span.step].append(span.start)
    for step, begun in sorted(starts.items()):
        at = min(begun)
        known = {name: values[step] for name, values in seconds.items() if step in values}
        if known:
            yield _slice(f"step {step}", LOOP, at, sum(known.values()), step=step)
        for name, length in known.items():
            yield _slice(name, LOOP, at, length, step=step)
            at += length


def _slice(name: str, row: int, start: float, seconds: float, **arguments: Any) -> Entry:
    return _entry("X", name, row, start, dur=seconds * 1e6, args=arguments)


def _entry(phase: str, name: str, row: int, time: float, **more: Any) -> Entry:
    return {"ph": phase, "name": name, "pid": 0, "tid": row, "ts": time * 1e6, **more}
