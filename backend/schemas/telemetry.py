"""What a run reports."""

from typing import Literal

from pydantic import Field

from backend.schemas.base import Schema

Level = Literal["info", "warning", "error", "alarm"]


class Series(Schema):
    """Values by RL step, steps rising. A value that is not finite is null.

    Of a long series they are buckets of ``width`` steps: the first step that each has a point for, and the mean, least (``low``) and
    greatest (``high``) value in it. A short one comes whole: its ``width`` is 1, ``low`` and ``high`` are empty.
    """

    steps: list[int] = Field(default_factory=list)
    values: list[float | None] = Field(default_factory=list)
    low: list[float | None] = Field(default_factory=list)
    high: list[float | None] = Field(default_factory=list)
    width: int = 1


class Metrics(Schema):
    series: dict[str, Series]


class MetricKey(Schema):
    """A series: ``points`` from ``first_step`` to ``last_step``, and its latest value."""

    key: str
    first_step: int
    last_step: int
    value: float | None
    points: int


class Lengths(Schema):
    """Response lengths of one step in tokens; percentiles are of the nearest rank."""

    step: int
    lengths: list[int]
    truncated: int
    p50: int
    p75: int
    p90: int
    max: int


class Span(Schema):
    """What a worker did from ``start`` to ``end``, in seconds since the epoch."""

    step: int
    worker: int
    state: Literal["BUSY", "IDLE", "TRAINING", "UPDATE", "EVALUATION"]
    start: float
    end: float


class Arm(Schema):
    """Use of one strategy in one batch-size bucket during a step."""

    bucket: int
    strategy: str
    pulls: int
    requests: int
    accepted: int
    seconds: float


class SpeculationStep(Schema):
    """``untrained``: why no idle worker trained the drafter in the step's tail; null if one did."""

    step: int
    arms: list[Arm]
    drafted_by_position: list[int]
    accepted_by_position: list[int]
    untrained: str | None = None


class DrafterSession(Schema):
    """One spot-training session of the drafter."""

    step: int
    time: float
    drafter_version: int
    published: bool
    reason: str
    microsteps: int
    tokens: int
    loss: float | None
    held_out_before: float | None
    held_out_after: float | None
    mix_distance: float | None = None


class SampleItem(Schema):
    step: int
    prompt: str
    response: str
    reward: float | None


class LogLine(Schema):
    """A line for people; ``id`` rises and is the cursor of ``since``. Level alarm: look at it, the run goes on."""

    id: int
    time: float
    level: Level
    step: int | None
    code: str
    message: str
