"""The way back to the page of a run, whose address Streamlit leaves in the browser's history without parameters: of a real API."""

import gc
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.runtime.scriptrunner import RerunData
from streamlit.testing.v1 import AppTest, local_script_runner

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard import page_files
from dashboard.auth import api_client
from engine.config import RunConfig

PLAIN, TLT = identity(0, 0), identity(0, 1)
APP = Path(page_files.__file__).with_name("app.py")


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    plans = [
        PlannedRun(run_id, RunConfig.model_validate(telemetry.config(speculation, algorithm={"steps": 2})), "succeeded", 2, 1.8e9)
        for run_id, speculation in ((PLAIN, False), (TLT, True))
    ]
    with api_with_runs(tmp_path, database_copies, plans, "editor") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api
    gc.unfreeze()  # what the app keeps


@pytest.fixture
def page(api: Counted) -> AppTest:
    page = AppTest.from_file(APP, default_timeout=300)
    page.session_state["me"] = api.me()
    return page.run()


def opened(page: AppTest, file: str, **address: str) -> AppTest:
    page.switch_page(file)
    page.query_params.clear()
    page.query_params.update(address)
    page.run()
    assert not page.exception
    return page


def choose(page: AppTest, tab: str) -> None:
    next(control for control in page.segmented_control if control.label == "Tabs").set_value(tab).run()


def shown(page: AppTest) -> tuple[str, str]:
    (tabs,) = (control for control in page.segmented_control if control.label == "Tabs")
    return page.query_params["id"], str(tabs.value)


def test_it_leads_to_the_tab_that_was_open(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(opened(page, page_files.RUN, id=TLT), "Speculation")
    opened(page, page_files.WORKERS)
    monkeypatch.setattr(local_script_runner, "RerunData", partial(RerunData, is_history_navigation=True))
    assert shown(opened(page, page_files.RUN)) == (TLT, "Speculation")
    assert page.query_params["tab"] == "Speculation", "and so does the way forward"


def test_a_link_leads_to_the_tab_that_it_names_or_to_the_first(page: AppTest) -> None:
    choose(opened(page, page_files.RUN, id=TLT), "Speculation")
    opened(page, page_files.WORKERS)
    assert shown(opened(page, page_files.RUN, id=PLAIN)) == (PLAIN, "Overview")
    opened(page, page_files.WORKERS)
    assert shown(opened(page, page_files.RUN, id=TLT, tab="Logs")) == (TLT, "Logs")
