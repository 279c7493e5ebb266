"""Which runs are compared: of a real API."""

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

FIRST, SECOND = identity(0, 0), identity(0, 1)


def script() -> None:
    from dashboard.views.compare.run_picker import chosen_runs

    chosen_runs()


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 1}))
    plans = [PlannedRun(run_id, config, "succeeded", 1, 1.8e9 + number) for number, run_id in enumerate((FIRST, SECOND))]
    with api_with_runs(tmp_path, database_copies, plans, "viewer") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api


@pytest.mark.usefixtures("api")
def test_the_address_names_the_runs_that_are_chosen_and_nothing_where_none_is() -> None:
    page = AppTest.from_function(script, default_timeout=300)
    page.run()
    assert dict(page.query_params) == {}
    (choice,) = page.multiselect
    choice.set_value([SECOND, FIRST]).run()
    assert dict(page.query_params) == {"runs": f"{SECOND},{FIRST}"}
    page.multiselect[0].set_value([]).run()
    assert not page.exception
    assert dict(page.query_params) == {}
