"""The timeline to take away, from a page that has been open for a while: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard.auth import api_client
from dashboard.views.run import record
from engine.config import RunConfig

GOING, ENDED = identity(0, 0), identity(0, 1)


def script(run_id: str, step: int) -> None:
    from dashboard.auth.api_client import client
    from dashboard.views.run.record import record

    record(client().run(run_id).model_copy(update={"step": step}))


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 4}))
    plans = [PlannedRun(GOING, config, "running", 3, 1.8e9), PlannedRun(ENDED, config, "cancelled", 0, 1.8e9)]
    with api_with_runs(tmp_path, database_copies, plans, "viewer") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api


def test_it_is_of_the_last_steps_however_far_the_run_was_when_its_page_was_opened(api: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    run = api.run(GOING)
    whole = record.trace(api, run)
    monkeypatch.setattr(record, "TRACED_STEPS", 1)
    last = record.trace(api, run)
    assert len(last) < len(whole)
    assert record.trace(api, run.model_copy(update={"step": 1})) == last


@pytest.mark.parametrize(("run_id", "offered"), [(GOING, True), (ENDED, False)])
def test_a_page_that_was_opened_before_the_first_step_offers_it(api: Counted, run_id: str, offered: bool) -> None:
    page = AppTest.from_function(script, args=(run_id, 0), default_timeout=300)
    page.session_state["me"] = api.me()
    assert not page.run().exception
    assert ("Perfetto trace" in [button.proto.label for button in page.get("download_button")]) is offered
