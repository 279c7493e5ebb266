"""Compare with fewer runs than two, or with an address that somebody has cut: of a real API."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
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


def opened(api: Counted, **address: str) -> AppTest:
    page = AppTest.from_file(APP, default_timeout=300)
    page.session_state["me"] = api.me()
    page.run()
    page.switch_page(page_files.COMPARE)
    page.query_params.update(address)
    return page.run()


def said(page: AppTest) -> list[str]:
    return [str(info.value).replace("\\", "") for info in page.info]


def test_one_run_alone_is_named_and_a_second_one_asked_for(api: Counted) -> None:
    page = opened(api, runs=PLAIN, over="")
    assert not page.exception
    assert said(page) == ["Add a run to compare countdown plain with. The first one is the baseline that the others are measured by."]
    (choice,) = (each for each in page.multiselect if each.label.startswith("Runs"))
    choice.set_value([PLAIN, TLT]).run()
    assert not page.exception
    assert said(page) == []
    assert dict(page.query_params) == {"runs": f"{PLAIN},{TLT}"}


def test_without_any_two_are_asked_for(api: Counted) -> None:
    page = opened(api, runs="")
    assert said(page) == ["Choose two runs or more. The first is the baseline that the others are measured by."]
