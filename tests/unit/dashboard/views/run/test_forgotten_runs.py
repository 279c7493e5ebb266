"""A session that looks at one run after the other: of a real API."""

from pathlib import Path

import pytest
from app_in_process import api_of_app, opened_app
from database_copies import DatabaseCopies

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard import page_files
from engine.config import RunConfig

RUNS = [identity(0, number) for number in range(3)]


def test_what_is_known_of_other_runs_is_let_go(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 2}))
    plans = [PlannedRun(run_id, config, "succeeded", 2, 1.8e9) for run_id in RUNS]
    with api_of_app(tmp_path, database_copies, monkeypatch, plans) as api:
        page = opened_app(api)
        page.run()
        page.switch_page(page_files.RUN)
        for run_id in RUNS:
            page.query_params["id"] = run_id
            assert not page.run().exception
        held = [run_id for run_id in RUNS if f"known-{run_id}" in page.session_state or f"pace-{run_id}" in page.session_state]
    assert held == RUNS[-1:]
