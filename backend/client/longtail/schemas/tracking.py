"""What a script that tracks its own run sends, and is told."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from longtail.schemas.base import Body, Schema, number
from longtail.schemas.runs import Name, Tag
from longtail.schemas.telemetry import Level

CONFIG_BYTES = 64 * 2**10
BATCH_POINTS = 10_000
BATCH_LINES = 100
LINE_CHARACTERS = 4000
ERROR_CHARACTERS = 10_000
LARGEST_STEP = 2**31 - 2  # a run counts the steps that are done, in 32 bits
LAST_SECOND = 4_102_444_800  # of the 21st century


def _small(config: dict[str, Any]) -> dict[str, Any]:
    size = len(json.dumps(config, ensure_ascii=False).encode())
    if size > CONFIG_BYTES:
        raise ValueError(f"it takes {size} bytes as JSON; {CONFIG_BYTES} is the most")
    return config


def _few(series: "list[NewPoints]") -> "list[NewPoints]":
    count = sum(len(one.points) for one in series)
    if count > BATCH_POINTS:
        raise ValueError(f"{count} points; a batch has {BATCH_POINTS} at most, so send several")
    return series


Key = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f,]+$", description="No comma, no control characters")]
Step = Annotated[int, Field(ge=0, le=LARGEST_STEP), BeforeValidator(number)]
Value = Annotated[float, Field(strict=True)]
Seconds = Annotated[float, Field(strict=True, ge=0, le=LAST_SECOND, description="Since the epoch")]


class Tracked(Body):
    """A run that a script elsewhere carries out and tells of. ``config`` is free, up to 64 KiB; ``steps`` 0: nobody knows how many.
    ``project_id`` null is the token's project, or else the default one."""

    name: Name
    config: Annotated[dict[str, JsonValue], AfterValidator(_small)] = Field({})
    tags: list[Tag] = Field(default_factory=list, max_length=32)
    steps: Step = 0
    project_id: str | None = Field(None, max_length=16)


class NewPoints(Body):
    """Points of one series as pairs of step and value; null is no finite number. A step that is there already gets the new value."""

    key: Key
    points: list[tuple[Step, Value | None]] = Field(min_length=1)


class NewLine(Body):
    """A line of the run's log; ``time`` is that of its arrival if left out."""

    message: str = Field(min_length=1, max_length=LINE_CHARACTERS)
    level: Level = "info"
    step: Step | None = None
    time: Seconds | None = None


class NewBatch(Body):
    """Counts once, however often a batch with this ``id`` is sent. An empty one says that the script is alive."""

    id: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._:-]+$")
    series: Annotated[list[NewPoints], AfterValidator(_few)] = Field([])
    lines: list[NewLine] = Field(default_factory=list, max_length=BATCH_LINES)


class Receipt(Schema):
    """``repeated``: this batch was here before, and changed nothing now. ``cancel_requested``: somebody wants the script to stop."""

    repeated: bool
    cancel_requested: bool


class Finish(Body):
    state: Literal["succeeded", "failed", "cancelled"]
    error: str | None = Field(None, max_length=ERROR_CHARACTERS, description="Why it failed")
