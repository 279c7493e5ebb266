"""Two runs of which one has done no step, compared: of a real API."""

from pathlib import Path

import pytest
from app_in_process import PLAIN, TLT, api_of_app, opened_app
from database_copies import DatabaseCopies

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun
from dashboard import page_files
from engine.config import RunConfig


def test_why_there_is_no_speedup_is_said(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, tlt = (RunConfig.model_validate(telemetry.config(speculation, algorithm={"steps": 2})) for speculation in (False, True))
    plans = [PlannedRun(PLAIN, plain, "succeeded", 2, 1.8e9), PlannedRun(TLT, tlt, "cancelled", 0, 1.8e9)]
    with api_of_app(tmp_path, database_copies, monkeypatch, plans) as api:
        page = opened_app(api).run()
        page.switch_page(page_files.COMPARE)
        page.query_params["runs"] = f"{PLAIN},{TLT}"
        assert not page.run().exception
    assert "no step in common" in " ".join(str(info.value) for info in page.info)
    assert "End to end" not in [metric.label for metric in page.metric]
