"""A run's events as they come: its lines, each once, and the run itself whenever something of it has changed."""

from dataclasses import dataclass
from typing import Self

from backend.database import Database
from backend.services.runs.lookup import find
from backend.services.runs.state_digest import state_digest
from backend.services.telemetry.log_lines import LOG_LINES, log_lines
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import LogLine

POSITION = r"^[0-9]{1,10}\.([0-9a-f]{16})?$"
LAST_LINE = 2**31 - 1


@dataclass(frozen=True)
class StreamPosition:
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
class StreamItem:
    """Something new, and the position after it."""

    what: Run | LogLine
    position: StreamPosition


def new_items(database: Database, run_id: str, position: StreamPosition) -> tuple[list[StreamItem], bool]:
    """What has happened since ``position``, and whether that is all that will ever happen. NotFoundError if the run is gone.

    The run is read before its lines: where it is finished, all of its lines are there.
    """
    with database.read() as session:
        run = Run.model_validate(find(session, run_id))
        lines = log_lines(session, run_id, position.line)
        happened = [StreamItem(LogLine.model_validate(line), position := StreamPosition(line.id, position.run)) for line in lines]
    if len(happened) == LOG_LINES:
        return happened, False
    digest = state_digest(run)
    if digest != position.run:
        happened.append(StreamItem(run, StreamPosition(position.line, digest)))
    return happened, run.finished
