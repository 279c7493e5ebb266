"""A run's data as a page holds it: what its open tab needs, fetched once, then only what is new."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar

from backend.client import Longtail
from backend.schemas.artifacts import Artifact
from backend.schemas.runs import Run
from backend.schemas.telemetry import Decoding, DrafterSession, Lengths, LogLine, SampleItem, Series, Span, SpeculationStep

LENGTH_STEPS, SPAN_STEPS, SAMPLES, LOG_LINES = 500, 50, 40, 500
MOST_STEPS = 1000
"""Of the speculation and the drafter; of a longer run every second step, every fourth and so on."""
ANY = "*"
EVERY = (ANY,)

Part = Literal["lengths", "spans", "decoding", "recent", "speculation", "drafters", "samples", "alarms", "artifacts"]


class Stepped(Protocol):
    @property
    def step(self) -> int: ...


Item = TypeVar("Item", bound=Stepped)


@dataclass(frozen=True)
class Needs:
    """The parts of a feed and the metric keys that something draws. ``eval/*`` is every key that begins with ``eval/``."""

    parts: tuple[Part, ...] = ()
    keys: tuple[str, ...] = ()

    def and_(self, other: "Needs") -> "Needs":
        return Needs((*self.parts, *other.parts), (*self.keys, *other.keys))


@dataclass(frozen=True)
class Feed:
    """Everything that the run page draws; of a long run only the latest lengths, spans, samples and alarms, and of the speculation and
    the drafter only steps that are multiples of ``spacing``. ``recent`` is the speculation of the steps that have spans, every one."""

    run: Run
    spacing: int = 1
    metrics: Mapping[str, Series] = field(default_factory=dict)
    lengths: Sequence[Lengths] = ()
    spans: Sequence[Span] = ()
    decoding: Sequence[Decoding] = ()
    recent: Sequence[SpeculationStep] = ()
    speculation: Sequence[SpeculationStep] = ()
    drafters: Sequence[DrafterSession] = ()
    samples: Sequence[SampleItem] = ()
    alarms: Sequence[LogLine] = ()
    artifacts: Sequence[Artifact] = ()

    def series(self, key: str) -> Series:
        return self.metrics.get(key, Series())

    def values(self, key: str) -> list[float]:
        """Of the series ``key``, the values that are numbers."""
        return [value for value in self.series(key).values if value is not None]


def refreshed(feed: Feed, client: Longtail, needs: Needs) -> Feed:
    """``feed`` with what is new of what is needed. The last step that it holds is asked for again, since the API may have had only a
    part of it; a new attempt starts afresh, since it repeats the steps after its checkpoint. A script may go back to any step: its
    series come anew."""
    run = client.run(feed.run.id)
    spaced = spacing(run.step)
    feed = replace(feed, run=run) if (run.attempt, spaced) == (feed.run.attempt, feed.spacing) else Feed(run, spaced)
    if run.kind == "tracked":
        feed = replace(feed, metrics={})
    parts: dict[str, Any] = {part: FETCH[part](feed, client) for part in dict.fromkeys(needs.parts)}
    return replace(feed, metrics=_metrics(feed, client, needs.keys), **parts)


def _metrics(feed: Feed, client: Longtail, keys: Sequence[str]) -> Mapping[str, Series]:
    named = [key for key in dict.fromkeys(keys) if not key.endswith(ANY)]
    known = [key for key in named if feed.series(key).steps]
    fresh = [key for key in named if key not in known]
    metrics = feed.metrics
    if known:
        held = min(feed.series(key).steps[-1] for key in known) - 1
        metrics = extended(metrics, client.metrics(feed.run.id, known, held).series, held)
    if fresh:
        metrics = {**metrics, **client.metrics(feed.run.id, fresh).series}
    for pattern in dict.fromkeys(key for key in keys if key.endswith(ANY)):
        prefix = pattern.removesuffix(ANY)
        held = min((series.steps[-1] for key, series in metrics.items() if key.startswith(prefix)), default=0) - 1
        metrics = extended(metrics, client.metrics(feed.run.id, since_step=held, prefix=prefix).series, held)
    return metrics


def held(items: Sequence[Stepped]) -> int:
    """The last step of which nothing needs to be asked again."""
    return items[-1].step - 1 if items else -1


def _lengths(feed: Feed, client: Longtail) -> Sequence[Lengths]:
    since = max(held(feed.lengths), feed.run.step - LENGTH_STEPS)
    return appended(feed.lengths, client.lengths(feed.run.id, since), since)[-LENGTH_STEPS:]


def _spans(feed: Feed, client: Longtail) -> Sequence[Span]:
    return _latest(feed, feed.spans, client.spans)


def _decoding(feed: Feed, client: Longtail) -> Sequence[Decoding]:
    return _latest(feed, feed.decoding, client.decoding)


def _recent(feed: Feed, client: Longtail) -> Sequence[SpeculationStep]:
    return _latest(feed, feed.recent, client.speculation)


def _latest(feed: Feed, old: Sequence[Item], ask: Callable[[str, int], Sequence[Item]]) -> Sequence[Item]:
    recent = feed.run.step - SPAN_STEPS
    since = max(held(old), recent)
    return [item for item in appended(old, ask(feed.run.id, since), since) if item.step > recent]


def _speculation(feed: Feed, client: Longtail) -> Sequence[SpeculationStep]:
    since = held(feed.speculation)
    return appended(feed.speculation, client.speculation(feed.run.id, since, every=feed.spacing), since)


def _drafters(feed: Feed, client: Longtail) -> Sequence[DrafterSession]:
    since = held(feed.drafters)
    return appended(feed.drafters, client.drafters(feed.run.id, since, every=feed.spacing), since)


def _samples(feed: Feed, client: Longtail) -> Sequence[SampleItem]:
    since = held(feed.samples)
    return appended(feed.samples, client.samples(feed.run.id, since, SAMPLES), since)[-SAMPLES:]


def _alarms(feed: Feed, client: Longtail) -> Sequence[LogLine]:
    since = feed.alarms[-1].id if feed.alarms else 0
    return [*feed.alarms, *client.logs(feed.run.id, since, tail=LOG_LINES, levels=("alarm",))][-LOG_LINES:]


def _artifacts(feed: Feed, client: Longtail) -> Sequence[Artifact]:
    return client.artifacts(feed.run.id)


FETCH: Mapping[Part, Callable[[Feed, Longtail], Sequence[Any]]] = {
    "lengths": _lengths,
    "spans": _spans,
    "decoding": _decoding,
    "recent": _recent,
    "speculation": _speculation,
    "drafters": _drafters,
    "samples": _samples,
    "alarms": _alarms,
    "artifacts": _artifacts,
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
