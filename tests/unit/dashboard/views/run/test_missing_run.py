"""The page of a run that is not there, or no more: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted
from app_in_process import api_of_app, opened_app
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard import page_files
from engine.config import RunConfig
from longtail.schemas.runs import Run

RUN = identity(0, 0)


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    plans = [PlannedRun(RUN, RunConfig.model_validate(telemetry.config(algorithm={"steps": 2})), "succeeded", 2, 1.8e9)]
    with api_of_app(tmp_path, database_copies, monkeypatch, plans) as api:
        yield api


@pytest.fixture
def page(api: Counted) -> AppTest:
    page = opened_app(api)
    page.run()
    page.switch_page(page_files.RUN)
    return page


def links(page: AppTest) -> list[str]:
    return [link.proto.label for link in page.main.get("page_link")]


def refusal(page: AppTest) -> str:
    (error,) = page.error
    return str(error.value).replace("\\", "")


def test_a_run_that_is_deleted_while_its_page_is_open_is_told_in_place_of_its_tab(
    page: AppTest, api: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks, as when only the part of the page is drawn that follows the run."""
    look = api.run

    def look_and_delete(run_id: str) -> Run:
        run = look(run_id)
        api.delete(run_id)
        return run

    page.query_params["id"] = RUN
    page.run()
    monkeypatch.setattr(api, "run", look_and_delete)
    (tabs,) = (control for control in page.segmented_control if control.label == "Tabs")
    tabs.set_value("Timeline").run()
    assert not page.exception
    assert "it was deleted; for some days it can be restored" in refusal(page)
    assert "All runs" in links(page)
    assert not [caption.value for caption in page.caption if "will appear here" in caption.value]


@pytest.mark.parametrize("asked", ["../../x", "a b", "x?y=1", "<b>", f"{RUN}/metrics"])
def test_what_was_asked_for_is_shown_as_it_is(page: AppTest, asked: str) -> None:
    page.query_params["id"] = asked
    page.run()
    assert not page.exception
    assert f"'{asked}'" in refusal(page)
    assert "All runs" in links(page)
    assert page.main.get("plotly_chart") == [], "what the browser loads ahead of charts that do not come"


def test_of_an_endless_id_the_beginning_is_shown(page: AppTest) -> None:
    page.query_params["id"] = "é" * 5000
    page.run()
    assert "é" * 100 in refusal(page)
    assert len(refusal(page)) < 400
