"""Reading a run's file of events."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from engine.errors import ConfigError
from engine.events.kinds import AnyEvent, Log, RunStarted, StartingUp

_ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
_OF_STARTS = (b'"starting_workers"', b'"run_started"', f'"code":"{ConfigError.code}"'.encode())


class EarlierStarts(NamedTuple):
    """How attempts have started so far: whether one was not refused for its configuration, and so may have had its workers, whatever ended
    it; and what the workers of the latest that had some were on, empty if none had any."""

    begun: bool = False
    device: str = ""


def parse_line(line: str | bytes) -> AnyEvent:
    """Parses one line; pydantic.ValidationError if it is not an event of this schema."""
    return _ADAPTER.validate_json(line)


def read(path: Path) -> Iterator[AnyEvent]:
    """The events of a file, without lines that are none: cut short, left by a crash of the machine, or of a later version."""
    with path.open("rb") as file:
        found = (_event(line) for line in file if line.endswith(b"\n"))
        yield from (event for event in found if event is not None)


def earlier_starts(path: Path) -> EarlierStarts:
    """Of all attempts that have written the file."""
    with path.open("rb") as file:
        events = [_event(line) for line in file if any(mark in line for mark in _OF_STARTS)]
    told = [event for event in events if isinstance(event, StartingUp | RunStarted | Log)]
    begun = any(
        isinstance(event, RunStarted) or (isinstance(event, StartingUp) and not isinstance(after, Log))
        for event, after in pairwise([*told, None])
    )
    devices = [event.device for event in told if not isinstance(event, Log) and event.device]
    return EarlierStarts(begun, devices[-1] if devices else "")


def _event(line: bytes) -> AnyEvent | None:
    try:
        return parse_line(line)
    except ValidationError:
        return None
