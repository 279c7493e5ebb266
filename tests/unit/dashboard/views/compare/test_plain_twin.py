from pathlib import Path

import pytest
from api_in_process import api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard.auth import api_client
from dashboard.text.escaping import escaped
from engine.config import RunConfig


def script() -> None:
    """The buttons for all runs but the oldest."""
    from dashboard.auth.api_client import client
    from dashboard.views.compare.plain_twin import plain_twins

    runs = client().runs().items
    plain_twins(runs[:-1], runs)


def test_buttons_for_runs_of_one_name_are_told_apart(
    tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("same", "other", "same", "plain")
    configs = [RunConfig.model_validate(telemetry.config(name != "plain", name=name, algorithm={"steps": 1})) for name in names]
    plans = [PlannedRun(identity(0, number), config, "queued", 0, 1.8e9 + number) for number, config in enumerate(configs)]
    with api_with_runs(tmp_path, database_copies, plans, "editor") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        page = AppTest.from_function(script, default_timeout=300)
        page.session_state["me"] = api.me()
        page.run()
        assert not page.exception
        labels = [button.label for button in page.button]
    assert labels == [f"Run the plain twin of {escaped(f'same ({plans[2].id[:6]})')}", "Run the plain twin of other"]
