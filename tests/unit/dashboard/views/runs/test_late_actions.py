"""A button that is pressed before it has heard of the last click on the grid: of a real API."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard import page_files
from dashboard.auth import api_client
from engine.config import RunConfig

RUNS = 3
PAGE = Path(page_files.__file__).with_name("views") / "runs" / "page.py"


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 1}))
    plans = [PlannedRun(identity(0, number), config, "succeeded", 1, 1.8e9 + number) for number in range(RUNS)]
    with api_with_runs(tmp_path, database_copies, plans, "editor") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api


def selected(page: AppTest, *rows: int) -> WidgetState:
    told = json.dumps({"selection": {"rows": rows, "columns": []}})
    return WidgetState(id=page.dataframe[0].proto.id, string_value=told)


def hear(page: AppTest, *widgets: WidgetState) -> None:
    states = page._tree.get_widget_states()
    states.widgets.extend(widgets)
    page._run(states)
    assert not page.exception


@pytest.mark.parametrize("last", ["grid", "button"])
def test_delete_spares_a_run_that_was_deselected_in_that_moment(api: Counted, last: str) -> None:
    page = AppTest.from_file(PAGE, default_timeout=300)
    page.session_state["me"] = api.me()
    assert not page.run().exception
    first, second = (run.id for run in api.runs().items[:2])
    hear(page, selected(page, 0, 1))
    delete = WidgetState(id=page.button(key="Delete").proto.id, trigger_value=True)
    assert page.button(key="Delete").label == "Delete 2"
    click = selected(page, 0)
    hear(page, *((delete, click) if last == "grid" else (click, delete)))
    left = {run.id for run in api.runs().items}
    assert first not in left
    assert second in left
