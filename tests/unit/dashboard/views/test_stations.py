"""Which run the tour is shown with, and what of it is told."""

import pytest
from example_runs import run

from backend.demo_data import telemetry
from dashboard.views.help.stations import STATIONS, route
from dashboard.views.run.tab_list import tabs_of
from longtail.schemas.runs import Run

TLT = run("tlt", telemetry.config())
OLDER = run("older", telemetry.config())
PLAIN = run("plain", telemetry.config(False))
QUEUED = run("queued", telemetry.config()).model_copy(update={"step": 0})
DRAFTER = run("drafter", telemetry.config()).model_copy(update={"steps": 0, "step": 0})
TRACKED = run("tracked", telemetry.config()).model_copy(update={"kind": "tracked"})
TABS = [station.tab for station in STATIONS]


@pytest.mark.parametrize(
    ("runs", "shown", "tabs"),
    [
        ([TLT, OLDER], "tlt", TABS),
        ([DRAFTER, TRACKED, PLAIN, QUEUED, TLT], "tlt", TABS),
        ([DRAFTER, QUEUED], "queued", TABS),
        ([DRAFTER, PLAIN], "plain", [tab for tab in TABS if tab != "Speculation"]),
        ([DRAFTER], "drafter", ["", ""]),
        ([], None, ["", ""]),
    ],
)
def test_the_newest_run_that_has_the_tabs_is_shown_and_what_no_run_has_is_left_out(
    runs: list[Run], shown: str | None, tabs: list[str]
) -> None:
    way = route(runs)
    assert [station.tab for station in way.stations] == tabs
    assert way.run_id == shown
    named = [way.address(at) for at, tab in enumerate(tabs) if tab]
    assert named == [{"id": shown, "tab": tab} for tab in tabs if tab]


@pytest.mark.parametrize("one", [TLT, PLAIN, DRAFTER, TRACKED], ids=lambda one: one.id)
def test_a_station_knows_which_runs_have_its_tab(one: Run) -> None:
    there = {tab.name for tab in tabs_of(one)}
    assert {station.tab for station in STATIONS if station.tab and station.fits(one)} == there & set(TABS)
