"""Runs from before and after an upgrade in the list and side by side: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from backend import models
from backend.database import Database
from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from backend.settings import Settings
from dashboard.auth import api_client
from dashboard.data.config_schema import config_schema
from engine.config import RunConfig

SEEDS = 3
OLDER = identity(0, 1)


def script() -> None:
    import streamlit as st

    from dashboard.analysis.seed_groups import seed_groups
    from dashboard.auth.api_client import client
    from dashboard.data.config_schema import whole_comparison
    from dashboard.views.runs.grouped_runs import grouped_runs

    found = grouped_runs({"sort": "-created"})
    ids = [run.id for run in found.runs]
    compared = whole_comparison(client().compare(ids[0], ids[1:], [], 10))
    st.session_state["told"] = [len(group.runs) for group in found.groups], [group.seeds for group in seed_groups(compared.items)]


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """Of three seeds; the second is from before scheduling could be set."""
    configs = [RunConfig.model_validate(telemetry.config(algorithm={"steps": 1}) | {"seed": seed}) for seed in range(SEEDS)]
    plans = [PlannedRun(identity(0, seed), config, "succeeded", 1, 1.8e9 + seed) for seed, config in enumerate(configs)]
    with api_with_runs(tmp_path, database_copies, plans, "editor") as api:
        older = configs[1].model_dump(mode="json", exclude={"rollout": {"scheduling"}})
        database = Database(Settings(home=tmp_path).database)
        with database.write() as session:
            session.execute(update(models.Run).where(models.Run.id == OLDER).values(config=older))
        database.close()
        assert "scheduling" not in api.run(OLDER).config["rollout"]
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        config_schema.clear()
        yield api


def test_seeds_from_before_and_after_an_upgrade_are_one_group(api: Counted) -> None:
    app = AppTest.from_function(script, default_timeout=300).run()
    assert not app.exception
    assert app.session_state["told"] == ([SEEDS], [SEEDS])
    assert api.asked.count("/api/v1/schema") == 1
