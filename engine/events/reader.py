"""Reading a run's file of events."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from engine.events.kinds import AnyEvent, RunStarted

_ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


def parse_line(line: str | bytes) -> AnyEvent:
    """Parses one line; pydantic.ValidationError if it is not an event of this schema."""
    return _ADAPTER.validate_json(line)


def read(path: Path) -> Iterator[AnyEvent]:
    """The events of a file, without lines that are none: cut short, left by a crash of the machine, or of a later version."""
    with path.open("rb") as file:
        found = (_event(line) for line in file if line.endswith(b"\n"))
        yield from (event for event in found if event is not None)


def last_start(path: Path) -> RunStarted | None:
    """What the latest attempt said when its workers were there; None if none has come so far."""
    with path.open("rb") as file:
        found = [event for line in file if b'"run_started"' in line and isinstance(event := _event(line), RunStarted)]
    return found[-1] if found else None


def _event(line: bytes) -> AnyEvent | None:
    try:
        return parse_line(line)
    except ValidationError:
        return None
