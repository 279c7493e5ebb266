"""The tour: alone, and on the pages of the app with a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted
from app_in_process import api_of_app, opened_app
from database_copies import DatabaseCopies
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard import page_files
from dashboard.views.help import tour
from dashboard.views.help.stations import STATIONS, Route
from engine.config import RunConfig

LAST = len(STATIONS) - 1
OLDER, NEWEST = identity(0, 0), identity(0, 1)


def script() -> None:
    import streamlit as st

    from dashboard.views.help import tour
    from dashboard.views.help.stations import STATIONS

    st.session_state.pop(tour.GOES, None)  # as on the page that it leads to
    if tour.AT in st.session_state:
        tour.show(STATIONS[st.session_state[tour.AT]].file)


def test_the_second_click_on_next_is_not_one_on_done() -> None:
    page = AppTest.from_function(script, default_timeout=300)
    page.session_state[tour.AT] = LAST - 1
    page.session_state[tour.ROUTE] = Route(STATIONS, "shown")
    page.run()
    led_on = next(button for button in page.button if button.label == "Next").proto.id
    for _ in range(2):
        states = page._tree.get_widget_states()
        states.widgets.append(WidgetState(id=led_on, trigger_value=True))
        page._run(states)
    assert tour.AT in page.session_state
    assert page.session_state[tour.AT] == LAST
    assert [button.label for button in page.button if not button.disabled] == ["Done"]


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 2}))
    plans = [PlannedRun(run_id, config, "succeeded", 2, 1.8e9 + number) for number, run_id in enumerate((OLDER, NEWEST))]
    with api_of_app(tmp_path, database_copies, monkeypatch, plans, "viewer") as api:
        yield api


@pytest.fixture
def page(api: Counted) -> AppTest:
    """At the second station."""
    page = opened_app(api)
    page.run()
    press(page, "Show me around")
    press(page, "Next")
    assert told(page) == ["2 of 5"]
    return page


def press(page: AppTest, label: str) -> None:
    next(button for button in page.button if button.label == label).click().run()
    assert not page.exception


def told(page: AppTest) -> list[str]:
    """Which station is there, or the offer."""
    texts = [str(text.value).removeprefix("**") for text in page.markdown]
    return [text.partition(":")[0] for text in texts if text[1:6] == " of 5" or text.startswith("New here?")]


def opened(page: AppTest, file: str, **address: str) -> AppTest:
    page.switch_page(file)
    page.query_params.update(address)
    page.run()
    assert not page.exception
    return page


def test_whoever_goes_elsewhere_is_not_followed_and_goes_on_from_help(page: AppTest, api: Counted) -> None:
    for file in (page_files.WORKERS, page_files.RUNS, page_files.RUN):
        assert told(opened(page, file)) == []
    assert api.preferences()["tour"] == ["seen"]
    press(opened(page, page_files.HELP), "Go on with the tour")
    assert (page.header[0].value, told(page)) == ("countdown TLT", ["2 of 5"])
    press(opened(page, page_files.RUN, id=NEWEST), "Leave the tour")
    press(opened(page, page_files.HELP), "Go on with the tour")
    opened(page, page_files.RUN, id=NEWEST)
    for _ in range(LAST - 1):
        press(page, "Next")
    press(opened(page, page_files.COMPARE), "Done")
    assert "Go on with the tour" not in [button.label for button in opened(page, page_files.HELP).button]


def test_the_tour_tells_of_the_tab_that_is_shown_or_is_left(page: AppTest) -> None:
    """On the way back, too, or by a click on a tab."""

    def go_to(tab: str) -> AppTest:
        (tabs,) = (control for control in page.segmented_control if control.label == "Tabs")
        tabs.set_value(tab).run()
        assert not page.exception
        return page

    press(page, "Next")
    assert (page.session_state["tab"], told(page)) == ("Timeline", ["3 of 5"])
    assert told(go_to("Overview")) == ["2 of 5"]
    assert told(go_to("Speculation")) == ["4 of 5"]
    assert told(go_to("Logs")) == []
    press(opened(page, page_files.HELP), "Go on with the tour")
    assert told(page) == ["4 of 5"]


def test_the_page_of_another_run_is_elsewhere(page: AppTest) -> None:
    assert told(opened(page, page_files.RUN, id=NEWEST)) == ["2 of 5"]
    assert told(opened(page, page_files.RUN, id=OLDER)) == []
