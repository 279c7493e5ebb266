"""A run's data as a page holds it: fetched once, then only what is new."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from backend.client import Longtail
from backend.schemas.artifacts import Artifact
from backend.schemas.runs import Run
from backend.schemas.telemetry import DrafterSession, Lengths, LogLine, SampleItem, Series, Span, SpeculationStep

LENGTH_STEPS, SPAN_STEPS, SAMPLES, LOG_LINES = 500, 50, 40, 500


class Stepped(Protocol):
    @property
    def step(self) -> int: ...


Item = TypeVar("Item", bound=Stepped)


@dataclass(frozen=True)
class Feed:
    """Everything that the run page draws; of a long run only the latest lengths, spans, samples and log lines."""

    run: Run
    metrics: Mapping[str, Series] = field(default_factory=dict)
    lengths: Sequence[Lengths] = ()
    spans: Sequence[Span] = ()
    speculation: Sequence[SpeculationStep] = ()
    drafters: Sequence[DrafterSession] = ()
    samples: Sequence[SampleItem] = ()
    logs: Sequence[LogLine] = ()
    artifacts: Sequence[Artifact] = ()

    def series(self, key: str) -> Series:
        return self.metrics.get(key, Series())


def refreshed(feed: Feed, client: Longtail) -> Feed:
    """``feed`` with what is new. The last step that it holds is asked for again, since the API may have had only a part of it;
    a new attempt starts afresh, since it repeats the steps after its checkpoint. A script may go back to any step: its series come anew."""
    run = client.run(feed.run.id)
    if run.attempt != feed.run.attempt:
        feed = Feed(run)
    latest = [] if run.kind == "tracked" else [series.steps[-1] - 1 for series in feed.metrics.values() if series.steps]
    held = max([-1, *latest])
    recent = run.step - SPAN_STEPS
    return Feed(
        run=run,
        metrics=extended(feed.metrics, client.metrics(run.id, since_step=held).series, held),
        lengths=appended(feed.lengths, client.lengths(run.id, max(held, run.step - LENGTH_STEPS)), held)[-LENGTH_STEPS:],
        spans=[span for span in appended(feed.spans, client.spans(run.id, max(held, recent)), held) if span.step > recent],
        speculation=appended(feed.speculation, client.speculation(run.id, held), held),
        drafters=appended(feed.drafters, client.drafters(run.id, held), held),
        samples=appended(feed.samples, client.samples(run.id, held, SAMPLES), held)[-SAMPLES:],
        logs=[*feed.logs, *client.logs(run.id, feed.logs[-1].id if feed.logs else 0)][-LOG_LINES:],
        artifacts=client.artifacts(run.id),
    )


def appended(old: Sequence[Item], new: Sequence[Item], held: int) -> list[Item]:
    """``old`` up to step ``held``, then ``new``."""
    return [*(item for item in old if item.step <= held), *new]


def extended(old: Mapping[str, Series], new: Mapping[str, Series], held: int) -> dict[str, Series]:
    """Each series of ``old`` up to step ``held``, then of ``new``."""
    return {key: _extended(old.get(key, Series()), new.get(key, Series()), held) for key in {**old, **new}}


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
