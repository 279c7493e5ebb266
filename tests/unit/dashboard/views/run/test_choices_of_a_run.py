"""What is chosen on the page of one run, and the page of the next one: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted
from app_in_process import PLAIN, TLT, api_of_app, opened_app
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun
from dashboard import page_files
from engine.config import RunConfig


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 8}))
    plans = [PlannedRun(run_id, config, "running", 5, 1.8e9) for run_id in (PLAIN, TLT)]
    with api_of_app(tmp_path, database_copies, monkeypatch, plans) as api:
        yield api


def choices(page: AppTest, run_id: str, tab: str) -> dict[str, object]:
    """What is chosen, by label."""
    page.query_params.update({"id": run_id, "tab": tab})
    page.session_state["tab"] = tab
    assert not page.run().exception
    controls = [*page.toggle, *page.segmented_control, *page.selectbox, *page.number_input]
    return {control.label: control.value for control in controls}


def choose(page: AppTest, label: str, value: object) -> None:
    controls = [*page.toggle, *page.segmented_control, *page.selectbox, *page.number_input]
    assert not next(control for control in controls if control.label == label).set_value(value).run().exception


@pytest.mark.parametrize(
    ("tab", "chosen"),
    [
        ("Timeline", {"Live": False, "Steps shown": "a step", "Step": 2}),
        ("Long tail", {"Steps": "a step", "Step": 2}),
        ("Config", {"Compared with": "Countdown, 100 steps"}),
    ],
)
def test_what_is_chosen_of_one_run_is_not_chosen_of_the_next(api: Counted, tab: str, chosen: dict[str, object]) -> None:
    page = opened_app(api).run()
    page.switch_page(page_files.RUN)
    before = choices(page, TLT, tab)
    choices(page, PLAIN, tab)
    for label, value in chosen.items():
        choose(page, label, value)
    assert choices(page, TLT, tab) == before
