"""A button that is pressed before it has heard of the last click, or right before another one: of a real API."""

import gc
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.proto.Common_pb2 import StringTriggerValue
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard import page_files
from dashboard.auth import api_client
from dashboard.views.runs import bulk_actions
from engine.config import RunConfig

RUNS = 3
APP = Path(page_files.__file__).with_name("app.py")
PAGE = APP.parent / page_files.RUNS


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 1}))
    plans = [PlannedRun(identity(0, number), config, "succeeded", 1, 1.8e9 + number) for number in range(RUNS)]
    with api_with_runs(tmp_path, database_copies, plans, "editor") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api
    gc.unfreeze()  # what the app keeps


def opened(script: Path, api: Counted) -> AppTest:
    """With the first two runs selected."""
    page = AppTest.from_file(script, default_timeout=300)
    page.session_state["me"] = api.me()
    page.run()
    hear(page, selected(page, 0, 1))
    return page


def selected(page: AppTest, *rows: int) -> WidgetState:
    told = json.dumps({"selection": {"rows": rows, "columns": []}})
    return WidgetState(id=page.dataframe[0].proto.id, string_value=told)


def pressed(page: AppTest, label: str) -> WidgetState:
    button = next(button for button in page.button if button.label == label)
    return WidgetState(id=button.proto.id, trigger_value=True)


def name_clicked(page: AppTest, row: int) -> WidgetState:
    told = StringTriggerValue(data=json.dumps({"row": row, "label": "name"}))
    return WidgetState(id=page.dataframe[0].proto.button_click_widgets["Name"], string_trigger_value=told)


def hear(page: AppTest, *widgets: WidgetState) -> None:
    states = page._tree.get_widget_states()
    states.widgets.extend(widgets)
    page._run(states)


def runs_left(api: Counted) -> list[str]:
    return [run.id for run in api.runs().items]


@pytest.mark.parametrize("last", ["grid", "button"])
def test_delete_spares_a_run_that_was_deselected_in_that_moment(api: Counted, last: str) -> None:
    page = opened(PAGE, api)
    _, second, third = runs_left(api)
    delete, click = pressed(page, "Delete 2"), selected(page, 0)
    hear(page, *((delete, click) if last == "grid" else (click, delete)))
    assert not page.exception
    assert runs_left(api) == [second, third]


@pytest.mark.parametrize(("label", "before", "after"), [("Add", [], ["mine"]), ("Remove 2", ["mine"], [])])
def test_a_tag_spares_it_too(api: Counted, label: str, before: list[str], after: list[str]) -> None:
    for run in api.runs().items:
        api.change_run(run.id, run.revision, tags=before)
    page = opened(PAGE, api)
    page.text_input(key="new-tag").set_value("mine")
    hear(page, selected(page, 0, 1))
    hear(page, pressed(page, label), selected(page, 0))
    assert not page.exception
    assert [run.tags for run in api.runs().items] == [after, before, before]


def test_what_is_deleted_can_be_taken_back_whatever_that_is_called(api: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "DELETE", replace(bulk_actions.DELETE, done="Put away"))
    page = opened(PAGE, api)
    before = runs_left(api)
    hear(page, pressed(page, "Delete 2"))
    assert [text.value for text in page.markdown if "Put away" in text.value] == [":green[**Put away 2 runs**]"]
    hear(page, pressed(page, "Undo"))
    assert not page.exception
    assert runs_left(api) == before
    assert not [button for button in page.button if button.label == "Undo"]


def test_delete_is_done_before_a_click_on_a_name_leads_away(api: Counted) -> None:
    """Or it would be done on the way back."""
    page = opened(PAGE, api)
    *_, third = runs_left(api)
    hear(page, pressed(page, "Delete 2"), name_clicked(page, 2))
    assert page_files.RUN in page.exception[0].message, "the page that it leads to, which there is in the app only"
    assert runs_left(api) == [third]


def test_delete_is_done_whichever_page_is_opened_at_once(api: Counted) -> None:
    page = opened(APP, api)
    *_, third = runs_left(api)
    page.switch_page(page_files.WORKERS)
    hear(page, pressed(page, "Delete 2"))
    assert not page.exception
    assert page.header[0].value == "Workers and queue"
    assert runs_left(api) == [third]


def test_a_click_on_a_name_leads_nowhere_once_another_page_is_opened(api: Counted) -> None:
    page = opened(APP, api)
    click = name_clicked(page, 2)
    page.switch_page(page_files.WORKERS)
    hear(page, click)
    assert page.header[0].value == "Workers and queue"
    page.switch_page(page_files.RUNS).run()
    assert page.header[0].value == "Runs", "not the run, on the way back"
