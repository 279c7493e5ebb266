"""A click on "Compare with" that is heard in a moment when the page cannot draw that button: of a real API."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

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
    page.run()
    page.switch_page(page_files.RUN)
    page.query_params["id"] = TLT
    return page.run()


def hear_comparison(page: AppTest) -> None:
    button = next(button for button in page.button if button.label.startswith("Compare with"))
    states = page._tree.get_widget_states()
    states.widgets.append(WidgetState(id=button.proto.id, trigger_value=True))
    page._run(states)


def test_it_leads_there_although_the_other_run_is_found_no_more(page: AppTest, api: Counted) -> None:
    api.delete(PLAIN)
    api.delete(TLT)
    hear_comparison(page)
    assert page.header[0].value == "Compare"


def test_it_leads_nowhere_once_another_page_is_opened(page: AppTest) -> None:
    page.switch_page(page_files.WORKERS)
    hear_comparison(page)
    page.switch_page(page_files.RUN).run()
    assert page.header[0].value == "countdown TLT"
