"""The page of a run that has ended without a step: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted
from app_in_process import api_of_app, opened_app
from database_copies import DatabaseCopies

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard import page_files
from dashboard.views.run.tab_list import tabs_of
from engine.config import RunConfig

ENDED, UNDER_WAY = identity(0, 0), identity(0, 1)
PROMISE = "will appear here"


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 2}))
    plans = [PlannedRun(ENDED, config, "cancelled", 0, 1.8e9), PlannedRun(UNDER_WAY, config, "starting", 0, 1.8e9)]
    with api_of_app(tmp_path, database_copies, monkeypatch, plans, "viewer") as api:
        yield api


def promised(api: Counted, run_id: str) -> dict[str, list[str]]:
    """What is told to come, by tab."""
    page = opened_app(api)
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
    assert promised(api, UNDER_WAY).keys() >= {"Overview", "Timeline", "Samples", "Metrics", "Files"}
