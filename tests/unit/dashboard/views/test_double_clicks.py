"""A button that starts a run, clicked twice: of a real API."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_in_process import Counted
from app_in_process import api_of_app, clicked, double_click, opened_app
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard import page_files
from engine.config import RunConfig
from longtail import ApiError
from longtail.schemas.runs import Run

FAILED, OTHER = identity(0, 0), identity(0, 1)


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    configs = [RunConfig.model_validate(telemetry.config(seed=seed, algorithm={"steps": 2})) for seed in range(2)]
    plans = [PlannedRun(run_id, config, "failed", 2, 1.8e9) for run_id, config in zip((FAILED, OTHER), configs, strict=True)]
    with api_of_app(tmp_path, database_copies, monkeypatch, plans) as api:
        yield api


def opened(api: Counted, file: str, **address: str) -> AppTest:
    page = opened_app(api).run()
    page.switch_page(file)
    page.query_params.update(address)
    return page.run()


def new_runs(api: Counted) -> list[str]:
    return [run.id for run in api.runs().items if run.id not in (FAILED, OTHER)]


def test_retry_makes_one_run(api: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(api, page_files.RUN, id=FAILED)
    late = clicked(page, "Retry")
    double_click(page, api, monkeypatch, "Retry")
    page._run(late)
    assert [page.query_params["id"]] == new_runs(api)


def test_a_retry_whose_answer_was_lost_is_not_made_again(api: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    accept = api._accept

    def accept_in_vain(*asked: Any) -> Run:
        accept(*asked)
        raise ApiError(0, "No server", "the answer was lost")

    page = opened(api, page_files.RUN, id=FAILED)
    with monkeypatch.context() as away:
        away.setattr(api, "_accept", accept_in_vain)
        page._run(clicked(page, "Retry"))
    assert page.query_params["id"] == FAILED
    page._run(clicked(page, "Retry"))
    assert [page.query_params["id"]] == new_runs(api)


def test_a_run_that_is_come_back_to_can_be_retried_once_more(api: Counted) -> None:
    page = opened(api, page_files.RUN, id=FAILED)
    for _ in range(2):
        page.query_params["id"] = FAILED
        page.run()
        page._run(clicked(page, "Retry"))
    assert len(new_runs(api)) == 2


def test_a_plan_is_submitted_once(api: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(api, page_files.PLANNER, **{"from": FAILED})
    page._run(clicked(page, "Plan"))
    double_click(page, api, monkeypatch, "Submit this plan")
    assert [page.query_params["id"]] == new_runs(api)


def test_a_plain_twin_is_started_once(api: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(api, page_files.COMPARE, runs=f"{FAILED},{OTHER}")
    label = next(button.label for button in page.button if button.label.startswith("Run the plain twin of"))
    double_click(page, api, monkeypatch, label)
    assert [page.query_params["id"]] == new_runs(api)
