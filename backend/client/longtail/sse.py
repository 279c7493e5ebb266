"""Server-sent events, as they arrive."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Event(NamedTuple):
    kind: str
    data: str
    id: str


def parse(lines: Iterable[str]) -> Iterator[Event]:
    """Whole events; one that breaks off is none. Comments, which keep a quiet connection alive, are left out."""
    fields: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(":")
        if name:
            fields.setdefault(name, []).append(value.removeprefix(" "))
        elif not line:
            if "data" in fields:
                yield Event(fields.get("event", ["message"])[-1], "\n".join(fields["data"]), fields.get("id", [""])[-1])
            fields = {}
