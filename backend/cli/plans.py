"""Of ``longtail plan``: a run that is named by its id is fetched from the API."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from backend.cli.runs import find
from backend.services.plans.trace import MOST_STEPS, PROMPT, SECONDS, write_trace
from engine.config import parse
from longtail import Longtail

TRACE = "--trace"


@contextmanager
def plan_arguments(arguments: Sequence[str]) -> Iterator[list[str]]:
    """``arguments`` of the planner, with a folder in the place of a run's id."""
    place = arguments.index(TRACE) + 1 if TRACE in arguments else len(arguments)
    if place >= len(arguments) or Path(arguments[place]).exists():
        yield list(arguments)
        return
    with TemporaryDirectory(prefix="longtail-plan-") as folder, Longtail() as client:
        _fetch(client, arguments[place], Path(folder))
        yield [*arguments[:place], folder, *arguments[place + 1 :]]


def _fetch(client: Longtail, prefix: str, folder: Path) -> None:
    run = find(client, prefix)
    since = max(-1, run.step - 1 - MOST_STEPS)
    series = client.metrics(run.id, [SECONDS, PROMPT], since).series | client.metrics(run.id, since_step=since, prefix="phase/").series
    lengths, speculation = client.lengths(run.id, since), client.speculation(run.id, since)
    write_trace(folder, parse(run.config), lengths, speculation, series)
