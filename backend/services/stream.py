"""A run's events as they come: its lines, each once, and the run itself whenever something of it has changed."""

import hashlib
from dataclasses import dataclass
from typing import Self

from backend.database import Database
from backend.schemas.runs import Run
from backend.schemas.telemetry import LogLine
from backend.services.runs import find
from backend.services.telemetry import LOG_LINES, logs

PLACE = r"^[0-9]{1,10}\.([0-9a-f]{16})?$"
LAST_LINE = 2**31 - 1


@dataclass(frozen=True)
class Place:
    """How far a reader has come: the last line, and which state of the run it has seen, as a digest."""

    line: int = 0
    run: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """``text`` matches PLACE."""
        line, _, run = text.partition(".")
        return cls(min(int(line), LAST_LINE), run)

    def __str__(self) -> str:
        return f"{self.line}.{self.run}"


@dataclass(frozen=True)
class Happened:
    """Something new, and the place after it."""

    what: Run | LogLine
    place: Place


def news(database: Database, run_id: str, place: Place) -> tuple[list[Happened], bool]:
    """What has happened since ``place``, and whether that is all that will ever happen. NotFoundError if the run is gone.

    The run is read before its lines: where it is finished, all of its lines are there.
    """
    with database.read() as session:
        run = Run.model_validate(find(session, run_id))
        lines = logs(session, run_id, place.line)
        happened = [Happened(LogLine.model_validate(line), place := Place(line.id, place.run)) for line in lines]
    if len(happened) == LOG_LINES:
        return happened, False
    digest = hashlib.sha256(run.model_dump_json().encode()).hexdigest()[:16]
    if digest != place.run:
        happened.append(Happened(run, Place(place.line, digest)))
    return happened, run.finished
