"""What a tab of the run page is: a name, the data that it needs, and a function that draws it."""

from collections.abc import Callable
from dataclasses import dataclass

from backend.schemas.runs import Run
from dashboard.feed import EVERY, Feed, Needs
from dashboard.pairs import speculates

__all__ = ["EVERY", "Needs", "Tab", "any_run", "loop", "tlt", "tracked"]


def any_run(_: Run) -> bool:
    return True


def loop(run: Run) -> bool:
    """Whether our engine carries the run out."""
    return run.kind != "tracked"


def tlt(run: Run) -> bool:
    return loop(run) and speculates(run.config)


def tracked(run: Run) -> bool:
    """Whether a script tells us of it."""
    return run.kind == "tracked"


NOTHING = Needs()


@dataclass(frozen=True)
class Tab:
    """Only the open tab of a page is fetched and drawn; ``fits`` tells which runs have it."""

    name: str
    show: Callable[[Feed], None]
    needs: Needs = NOTHING
    fits: Callable[[Run], bool] = any_run
