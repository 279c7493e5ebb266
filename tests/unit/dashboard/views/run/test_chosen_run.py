"""Which run the page shows: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard.auth import api_client
from engine.config import RunConfig

OLDER, NEWEST = identity(0, 0), identity(0, 1)


def script() -> None:
    import streamlit as st

    from dashboard.views.run.chosen_run import chosen_run

    st.text(chosen_run().id)


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 1}))
    plans = [PlannedRun(run_id, config, "succeeded", 1, 1.8e9 + number) for number, run_id in enumerate((OLDER, NEWEST))]
    with api_with_runs(tmp_path, database_copies, plans, "editor") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api


def shown(page: AppTest, **address: str) -> str:
    page.query_params.clear()
    page.query_params.update(address)
    assert not page.run().exception
    return str(page.text[0].value)


@pytest.mark.usefixtures("api")
def test_an_address_that_names_no_run_shows_the_one_of_before_and_at_first_the_newest() -> None:
    page = AppTest.from_function(script, default_timeout=300)
    assert shown(page) == NEWEST
    assert shown(page, id=OLDER) == OLDER
    assert shown(page) == OLDER, "as after a way back from another page"
    assert page.query_params["id"] == OLDER
