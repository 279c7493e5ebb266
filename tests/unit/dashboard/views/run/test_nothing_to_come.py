"""The page of a run that has ended without a step: of a real API."""

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
from dashboard.views.run.tab_list import tabs_of
from engine.config import RunConfig

ENDED, UNDER_WAY = identity(0, 0), identity(0, 1)
APP = Path(page_files.__file__).with_name("app.py")
PROMISE = "will appear here"


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 2}))
    plans = [PlannedRun(ENDED, config, "cancelled", 0, 1.8e9), PlannedRun(UNDER_WAY, config, "starting", 0, 1.8e9)]
    with api_with_runs(tmp_path, database_copies, plans, "viewer") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api
    gc.unfreeze()  # what the app keeps


def promised(api: Counted, run_id: str) -> dict[str, list[str]]:
    """What is told to come, by tab."""
    page = AppTest.from_file(APP, default_timeout=300)
    page.session_state["me"] = api.me()
    page.run()
    page.switch_page(page_files.RUN)
    found = {}
    for tab in tabs_of(api.run(run_id)):
        page.query_params.update({"id": run_id, "tab": tab.name})
        page.session_state["tab"] = tab.name
        assert not page.run().exception
        found[tab.name] = [str(caption.value) for caption in page.caption if PROMISE in caption.value]
    return {name: told for name, told in found.items() if told}


def test_a_run_that_has_ended_promises_nothing_more(api: Counted) -> None:
    assert promised(api, ENDED) == {}
    assert promised(api, UNDER_WAY).keys() >= {"Overview", "Timeline", "Samples", "Metrics"}
