"""A run's data as a page holds it: what its open tab draws, fetched once, then only what is new."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any, Literal, Protocol, TypeVar

from dashboard.analysis.run_config import section
from longtail import Longtail
from longtail.schemas.artifacts import Artifact
from longtail.schemas.run_statistics import RunStatistics
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import (
    Decoding,
    DrafterSession,
    Lengths,
    LogLine,
    PretrainingRound,
    Series,
    SpeculationStep,
    WorkerSpan,
)

LENGTH_STEPS, SPAN_STEPS, SESSION_STEPS, LOG_LINES = 500, 50, 500, 500
MOST_RESPONSES = 250_000
"""Whose lengths and rewards are held: some 20 MB."""
LATE_STEPS = 20
"""So many steps after its own a value of a metric may still come."""
REQUESTS_AT_ONCE = 3
MOST_STEPS = 1000
"""Of the speculation and the drafter; of a longer run every second step, every fourth and so on."""
ANY = "*"

RecordKind = Literal["lengths", "spans", "decoding", "recent", "speculation", "drafters", "sessions", "pretraining", "alarms", "artifacts"]


class OfStep(Protocol):
    @property
    def step(self) -> int: ...


Item = TypeVar("Item", bound=OfStep)


@dataclass(frozen=True)
class DataQuery:
    """The records and the metrics that something draws. ``eval/*`` is every key that begins with ``eval/``. ``latest_steps``: also the
    metrics of the latest so many steps; ``statistics``: also what all steps come to."""

    records: tuple[RecordKind, ...] = ()
    metric_keys: tuple[str, ...] = ()
    latest_steps: int = 0
    statistics: bool = False

    def merged(self, other: "DataQuery") -> "DataQuery":
        keys = (*self.metric_keys, *other.metric_keys)
        latest = max(self.latest_steps, other.latest_steps)
        return DataQuery((*self.records, *other.records), keys, latest, self.statistics or other.statistics)


@dataclass(frozen=True)
class RunData:
    """Everything that the run page draws; of a long run only the latest lengths, spans and alarms, and of the speculation and
    the drafter only some: one step of each ``spacing``. ``recent`` is the speculation of the steps that have spans, every one, and
    ``sessions`` are those of the drafter in the latest SESSION_STEPS. Of a long pretraining, too, only some rounds. ``statistics`` are
    over all steps, None where nobody asked for them. ``until``: at how many steps the run was when a key or a pattern of ``metrics`` was
    asked for last. ``latest`` are the metrics of the latest steps, every one, where that is asked for. ``asked_at``: when the API was
    asked last, in seconds of ``time.monotonic``."""

    run: Run
    spacing: int = 1
    asked_at: float = 0.0
    statistics: RunStatistics | None = None
    metrics: Mapping[str, Series] = field(default_factory=dict)
    until: Mapping[str, int] = field(default_factory=dict)
    latest: Mapping[str, Series] = field(default_factory=dict)
    lengths: Sequence[Lengths] = ()
    spans: Sequence[WorkerSpan] = ()
    decoding: Sequence[Decoding] = ()
    recent: Sequence[SpeculationStep] = ()
    speculation: Sequence[SpeculationStep] = ()
    drafters: Sequence[DrafterSession] = ()
    sessions: Sequence[DrafterSession] = ()
    pretraining: Sequence[PretrainingRound] = ()
    alarms: Sequence[LogLine] = ()
    artifacts: Sequence[Artifact] = ()

    def series(self, key: str) -> Series:
        return self.metrics.get(key, Series())

    def held_of(self, key: str) -> int:
        """The last step of which nothing more comes for a key or a pattern of ``metrics``, and which no bucket of theirs goes beyond."""
        if key not in self.until:
            return -1
        last = max(self.until[key] - 1 - LATE_STEPS, -1)
        prefix = key.removesuffix(ANY)
        series = [each for name, each in self.metrics.items() if name == key or (prefix != key and name.startswith(prefix))]
        return min((_bucket_before(each, last) for each in series), default=last)


def refreshed(data: RunData, client: Longtail, query: DataQuery, run: Run | None = None) -> RunData:
    """``data`` with what is new of what is asked for. The last step that it holds is asked for again, since the API may have had only a
    part of it; a new attempt starts afresh, since it repeats the steps after its checkpoint. A script may go back to any step: its
    series come anew. ``run`` is the run as it is now, if that is known."""
    run = run or client.run(data.run.id)
    spaced = spacing(run.step)
    data = replace(data, run=run) if (run.attempt, spaced) == (data.run.attempt, data.spacing) else RunData(run, spaced)
    if run.kind == "tracked":
        data = replace(data, metrics={}, until={})
    wanted: dict[str, Callable[[], Any]] = {kind: partial(FETCH[kind], data, client) for kind in query.records}
    if query.statistics:
        wanted["statistics"] = lambda: client.statistics(run.id)
    if query.latest_steps:
        wanted["latest"] = lambda: client.metrics(run.id, since_step=last_before(run, query.latest_steps)).series
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        metrics = pool.submit(_metrics, data, client, query.metric_keys)
        records: dict[str, Any] = dict(zip(wanted, pool.map(lambda fetch: fetch(), wanted.values()), strict=True))
        until = {**data.until, **dict.fromkeys(query.metric_keys, run.step)}
        return replace(data, metrics=metrics.result(), until=until, asked_at=monotonic(), **records)


def _metrics(data: RunData, client: Longtail, keys: Sequence[str]) -> Mapping[str, Series]:
    """A key that is no longer told has nothing new, however long ago its last value came."""
    named = [key for key in dict.fromkeys(keys) if not key.endswith(ANY)]
    known = [key for key in named if key in data.until]
    fresh = [key for key in named if key not in data.until]
    metrics = data.metrics
    if known:
        held = min(map(data.held_of, known))
        metrics = extended(metrics, client.metrics(data.run.id, known, held).series, held)
    if fresh:
        metrics = {**metrics, **client.metrics(data.run.id, fresh).series}
    for pattern in dict.fromkeys(key for key in keys if key.endswith(ANY)):
        held = data.held_of(pattern)
        found = client.metrics(data.run.id, since_step=held, prefix=pattern.removesuffix(ANY)).series
        metrics = extended(metrics, found, held)
    return metrics


def held(items: Sequence[OfStep]) -> int:
    """The last step of which nothing needs to be asked again."""
    return items[-1].step - 1 if items else -1


def length_steps(run: Run) -> int:
    """The latest so many steps have their lengths held: fewer than LENGTH_STEPS where a step has very many responses."""
    if run.kind == "tracked":
        return LENGTH_STEPS
    algorithm = section(run.config, "algorithm")
    responses = int(algorithm.get("prompts_per_step", 1)) * int(algorithm.get("group_size", 1)) * (1 + int(algorithm.get("refills", 0)))
    return max(1, min(LENGTH_STEPS, MOST_RESPONSES // max(responses, 1)))


def _lengths(data: RunData, client: Longtail) -> Sequence[Lengths]:
    most = length_steps(data.run)
    since = max(held(data.lengths), last_before(data.run, most))
    return appended(data.lengths, client.lengths(data.run.id, since), since)[-most:]


def last_before(run: Run, steps: int) -> int:
    """The last step before the latest so many: -1 if there is none."""
    return max(run.step - steps, 0) - 1


def _latest(data: RunData, old: Sequence[Item], ask: Callable[[str, int], Sequence[Item]]) -> Sequence[Item]:
    recent = last_before(data.run, SPAN_STEPS)
    since = max(held(old), recent)
    return [item for item in appended(old, ask(data.run.id, since), since) if item.step > recent]


def _spaced(data: RunData, old: Sequence[Item], ask: Callable[..., Sequence[Item]]) -> Sequence[Item]:
    since = held(old)
    return appended(old, ask(data.run.id, since, every=data.spacing), since)


def _sessions(data: RunData, client: Longtail) -> Sequence[DrafterSession]:
    recent = last_before(data.run, SESSION_STEPS)
    since = max(held(data.sessions), recent)
    return [item for item in appended(data.sessions, client.drafters(data.run.id, since), since) if item.step > recent]


def _pretraining(data: RunData, client: Longtail) -> Sequence[PretrainingRound]:
    """A round is told as a whole."""
    every = spacing(data.run.pretraining.round) if data.run.pretraining else 1
    known = [one for one in data.pretraining if one.round % every == 0]
    return [*known, *client.pretraining(data.run.id, known[-1].round if known else -1, every)]


def _alarms(data: RunData, client: Longtail) -> Sequence[LogLine]:
    since = data.alarms[-1].id if data.alarms else 0
    return [*data.alarms, *client.logs(data.run.id, since, tail=LOG_LINES, levels=("alarm",))][-LOG_LINES:]


FETCH: Mapping[RecordKind, Callable[[RunData, Longtail], Sequence[Any]]] = {
    "lengths": _lengths,
    "spans": lambda data, client: _latest(data, data.spans, client.spans),
    "decoding": lambda data, client: _latest(data, data.decoding, client.decoding),
    "recent": lambda data, client: _latest(data, data.recent, client.speculation),
    "speculation": lambda data, client: _spaced(data, data.speculation, client.speculation),
    "drafters": lambda data, client: _spaced(data, data.drafters, client.drafters),
    "sessions": _sessions,
    "pretraining": _pretraining,
    "alarms": _alarms,
    "artifacts": lambda data, client: client.artifacts(data.run.id),
}


def spacing(steps: int) -> int:
    """The least power of two of whose multiples there are at most MOST_STEPS in so many steps."""
    return 1 << (max(steps - 1, 0) // MOST_STEPS).bit_length()


def appended(old: Sequence[Item], new: Sequence[Item], held: int) -> list[Item]:
    """``old`` up to step ``held``, then ``new``."""
    return [*(item for item in old if item.step <= held), *new]


def extended(old: Mapping[str, Series], new: Mapping[str, Series], held: int) -> dict[str, Series]:
    """Each series of ``old``: up to step ``held``, then of ``new`` where that has it."""
    return {key: _extended(old.get(key, Series()), new[key], held) if key in new else old[key] for key in {**old, **new}}


def _bucket_before(series: Series, last: int) -> int:
    """``last``, or the step before the bucket that it is in the midst of."""
    start = max((step for step in series.steps if step <= last), default=last - series.width)
    return start - 1 if start <= last < start + series.width - 1 else last


def _extended(old: Series, new: Series, held: int) -> Series:
    """An envelope goes on with single points, each of which is its own least and greatest value."""
    count = sum(step <= held for step in old.steps)
    steps, values = [*old.steps[:count], *new.steps], [*old.values[:count], *new.values]
    width = max(old.width, new.width)
    if width == 1:
        return Series(steps=steps, values=values)
    low = [*(old.low or old.values)[:count], *(new.low or new.values)]
    high = [*(old.high or old.values)[:count], *(new.high or new.values)]
    return Series(steps=steps, values=values, low=low, high=high, width=width)
