"""How many runs are in each state, as the list's next drawing tells it: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard.auth import api_client
from dashboard.views.runs.state_totals import totals
from engine.config import RunConfig
from longtail.schemas.runs import RunState

CONFIG = RunConfig.model_validate(telemetry.config(algorithm={"steps": 1}))
STATES: tuple[RunState, ...] = ("succeeded", "failed", "succeeded", "failed")


def script() -> None:
    """The page: what was clicked, then the totals above a list that shows the newest run only."""
    import streamlit as st

    from dashboard.auth.api_client import client
    from dashboard.views.runs.bulk_actions import DELETE, apply_to_all
    from dashboard.views.runs.state_totals import state_totals

    if deleted := st.session_state.get("delete"):
        apply_to_all(DELETE, deleted)
    state_totals({"sort": "-created"}, client().runs(limit=1).items)


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    plans = [PlannedRun(identity(0, number), CONFIG, state, 1, 1.8e9 + number) for number, state in enumerate(STATES)]
    with api_with_runs(tmp_path, database_copies, plans, "editor") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        totals.clear()
        yield api


@pytest.fixture
def page(api: Counted) -> AppTest:
    shown = AppTest.from_function(script, default_timeout=300)
    shown.session_state["me"] = api.me()
    return shown.run()


def told(page: AppTest) -> str:
    assert not page.exception
    return str(page.caption[0].value)


def test_totals_are_right_after_a_bulk_action_on_runs_that_the_list_does_not_show(api: Counted, page: AppTest) -> None:
    assert told(page) == "4 runs: 2 succeeded, 2 failed"
    page.session_state["delete"] = [run for run in api.runs().items if run.state == "succeeded"]
    assert told(page.run()) == "2 runs: 2 failed"


def test_totals_are_never_behind_the_list_and_else_asked_for_seldom(api: Counted, page: AppTest) -> None:
    api.asked.clear()
    assert told(page.run()) == "4 runs: 2 succeeded, 2 failed"
    assert api.asked == ["/api/v1/runs"]
    api.delete(api.runs().items[0].id)
    assert told(page.run()) == "3 runs: 2 succeeded, 1 failed"
    for run in api.runs().items[:2]:
        api.delete(run.id)
    assert told(page.run()).startswith("1 run: ")
