from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard import page_files
from dashboard.auth import api_client
from dashboard.text.escaping import escaped
from engine.config import RunConfig


def script() -> None:
    """The buttons for all runs but the oldest."""
    from dashboard.auth.api_client import client
    from dashboard.views.compare.plain_twin import plain_twins

    runs = client().runs().items
    plain_twins(runs[:-1], runs)


@pytest.fixture
def tlt() -> list[PlannedRun]:
    configs = [RunConfig.model_validate(telemetry.config(name=name, algorithm={"steps": 1})) for name in ("same", "other", "same")]
    return [PlannedRun(identity(0, number), config, "succeeded", 1, 1.8e9 + number) for number, config in enumerate(configs)]


@contextmanager
def shown(
    plans: Sequence[PlannedRun], home: Path, copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[AppTest, Counted]]:
    with api_with_runs(home, copies, plans, "editor") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        page = AppTest.from_function(script, default_timeout=300)
        page.session_state["me"] = api.me()
        yield page.run(), api


def labels(page: AppTest) -> list[str]:
    assert not page.exception
    return [button.label for button in page.button]


def test_buttons_for_runs_of_one_name_are_told_apart(
    tlt: list[PlannedRun], tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shown(tlt, tmp_path, database_copies, monkeypatch) as (page, _):
        assert labels(page) == [f"Run the plain twin of {escaped(f'same ({tlt[2].id[:6]})')}", "Run the plain twin of other"]


def test_a_plain_twin_that_waits_is_not_offered_to_be_run_again(
    tlt: list[PlannedRun], tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shown(tlt[:2], tmp_path, database_copies, monkeypatch) as (page, api):
        page.button[0].click().run()
        assert page_files.RUN in page.exception[0].message, "the page that it leads to, which there is in the app only"
        assert labels(page.run()) == [f"Compare {name} with its plain twin" for name in ("other", "same")]
        api.cancel(api.runs("queued").items[0].id)
        page.session_state["glances"] = {}
        assert labels(page.run()) == [f"Run the plain twin of {name}" for name in ("other", "same")]
