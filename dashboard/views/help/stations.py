"""The stations of the tour, and the run that they are shown with."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dashboard import page_files
from dashboard.views.run.tabs.tab import speculating_run, training_run
from longtail.schemas.runs import Run


class Station(NamedTuple):
    """What to look at on the page of this file; on that of a run, in this tab, which the runs have that ``fits`` tells."""

    file: str
    title: str
    text: str
    tab: str = ""
    fits: Callable[[Run], bool] = lambda _: True


STATIONS = (
    Station(
        page_files.RUNS,
        "All runs",
        "Each row is a run, and on a phone each card. Select two in the table and compare them; a click on a name opens one.",
    ),
    Station(
        page_files.RUN,
        "One run",
        "Three cards answer: is it training, is it faster, and why? Below, Overview shows the reward and where the seconds of a step go.",
        "Overview",
        training_run,
    ),
    Station(
        page_files.RUN,
        "The long tail",
        "In the timeline each lane is a worker. Where it waits for the longest responses, it trains the drafter.",
        "Timeline",
        training_run,
    ),
    Station(
        page_files.RUN,
        "Speculation",
        "How many tokens a pass of the model yields, what drafts them, and whether the tuner chooses well.",
        "Speculation",
        speculating_run,
    ),
    Station(page_files.COMPARE, "Side by side", "Curves, speed-ups of runs that do the same work, and what settings did to figures."),
)


class Route(NamedTuple):
    """``run_id``: of the run that the stations are shown with; None where there is none."""

    stations: Sequence[Station]
    run_id: str | None

    def address(self, at: int) -> dict[str, str]:
        """The parameters of the address of a station."""
        tab = self.stations[at].tab
        return {"id": self.run_id, "tab": tab} if tab and self.run_id else {}


def route(runs: Sequence[Run]) -> Route:
    """With that of the ``runs``, newest first, which has most of the tabs, rather with steps than without. Those that it has not are left
    out: nothing is told of what is not there."""

    def value(run: Run) -> tuple[int, bool]:
        return sum(station.fits(run) for station in STATIONS), run.step > 0

    shown = max(runs, key=value, default=None)
    stations = [station for station in STATIONS if not station.tab or (shown is not None and station.fits(shown))]
    return Route(stations, shown.id if shown else None)
