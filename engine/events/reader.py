"""Reading a run's file of events."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from engine.events.kinds import AnyEvent

_ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


def parse_line(line: str | bytes) -> AnyEvent:
    """Parses one line; pydantic.ValidationError if it is not an event of this schema."""
    return _ADAPTER.validate_json(line)


def read(path: Path) -> Iterator[AnyEvent]:
    """The events of a file, without lines that are none: cut short, left by a crash of the machine, or of a later version."""
    with path.open("rb") as file:
        found = (_event(line) for line in file if line.endswith(b"\n"))
        yield from (event for event in found if event is not None)


def _event(line: bytes) -> AnyEvent | None:
    try:
        return parse_line(line)
    except ValidationError:
        return None
