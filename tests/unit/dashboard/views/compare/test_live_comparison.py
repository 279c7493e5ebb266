"""Compare, left open while its runs go on: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted
from app_in_process import PLAIN, TLT, api_of_app, look, opened_app, parts_that_look
from database_copies import DatabaseCopies
from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from backend.database import Database
from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun
from backend.models import Run
from backend.services.telemetry.metric_storage import write_points
from backend.settings import Settings
from dashboard import page_files
from engine.config import RunConfig

LATE = "eval/pass_at_1"


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    plans = [
        PlannedRun(run_id, RunConfig.model_validate(telemetry.config(speculation, algorithm={"steps": 4})), "running", 0, 1.8e9)
        for run_id, speculation in ((PLAIN, False), (TLT, True))
    ]
    with api_of_app(tmp_path, database_copies, monkeypatch, plans) as api:
        yield api


@pytest.fixture
def database(tmp_path: Path, api: Counted) -> Iterator[Database]:  # noqa: ARG001  (which makes it)
    database = Database(Settings(home=tmp_path).database)
    yield database
    database.close()


def go_on(database: Database, state: str) -> None:
    with database.write() as session:
        for run_id in (PLAIN, TLT):
            write_points(session, run_id, [{"run_id": run_id, "key": LATE, "step": 1, "value": 0.5}])
        session.execute(update(Run).values(step=2, state=state))


def offered(page: AppTest) -> list[str]:
    return next(choice.options for choice in page.multiselect if choice.label == "Metrics")


def test_a_metric_that_comes_later_is_offered_and_a_look_after_the_end_is_the_last(
    api: Counted, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = parts_that_look(monkeypatch)
    page = opened_app(api).run()
    page.switch_page(page_files.COMPARE)
    page.query_params["runs"] = f"{PLAIN},{TLT}"
    page.run()
    part = parts[-1]
    assert LATE not in offered(page)
    go_on(database, "running")
    look(look(page, monkeypatch, part), monkeypatch, part)
    assert LATE in offered(page)
    parts.clear()
    go_on(database, "succeeded")
    look(page, monkeypatch, part)
    assert LATE in offered(page)
    assert page.header[0].value == "Compare", "drawn anew as a whole"
    assert parts == []
