"""Notes that are written while somebody else, or the API's absence, comes between: with a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard.auth import api_client
from dashboard.views.run.record_form import RefusedEdit
from engine.config import RunConfig
from longtail import ApiError

RUN = identity(0, 0)


def script(run_id: str) -> None:
    from dashboard.auth.api_client import client
    from dashboard.views.run.record_form import record_form

    record_form(client().run(run_id), {}, True)


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 1}))
    with api_with_runs(tmp_path, database_copies, [PlannedRun(RUN, config, "succeeded", 1, 1.8e9)], "editor") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api


@pytest.fixture
def page(api: Counted) -> AppTest:
    shown = AppTest.from_function(script, args=(RUN,), default_timeout=300)
    shown.session_state["me"] = api.me()
    return shown.run()


def save(page: AppTest) -> None:
    page.button[0].click()
    assert not page.run().exception


def test_what_was_saved_elsewhere_meanwhile_is_seen_before_it_is_overwritten(api: Counted, page: AppTest) -> None:
    page.text_area[0].set_value("an hour's thoughts")
    api.change_run(RUN, notes="theirs", tags=["theirs"])
    save(page)
    assert api.run(RUN).notes == "theirs"
    assert "somebody has changed this run meanwhile" in page.warning[0].value
    assert page.text_area[0].value == "an hour's thoughts"
    assert page.multiselect[0].value == ["theirs"], "a field that only they changed is as they left it"
    save(page)
    assert (api.run(RUN).notes, api.run(RUN).tags) == ("an hour's thoughts", ["theirs"])
    assert not page.warning


def test_an_open_form_does_not_begin_anew_with_what_somebody_else_saves(api: Counted, page: AppTest) -> None:
    before = [field.id for field in page.text_area], page.multiselect[0].value
    api.change_run(RUN, tags=["theirs"])
    page.run()
    assert ([field.id for field in page.text_area], page.multiselect[0].value) == before
    page.text_area[0].set_value("an hour's thoughts")
    save(page)
    assert "somebody has changed this run meanwhile" in page.warning[0].value
    save(page)
    assert (api.run(RUN).notes, api.run(RUN).tags) == ("an hour's thoughts", ["theirs"])


def test_what_could_not_be_saved_is_shown_though_its_project_is_gone(page: AppTest) -> None:
    page.session_state[f"refused-edit-{RUN}"] = RefusedEdit({"project_id": "gone"}, ApiError(404, "Not found", "no such project"))
    assert not page.run().exception
    assert "no such project" in page.error[0].value


def test_what_could_not_be_saved_stays_in_the_form(api: Counted, page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    page.text_area[0].set_value("an hour's thoughts")
    with monkeypatch.context() as away:
        away.setattr(api, "change_run", _no_answer)
        save(page)
    assert "Not saved" in page.error[0].value
    save(page)
    assert api.run(RUN).notes == page.text_area[0].value == "an hour's thoughts"


def _no_answer(*_: object, **__: object) -> None:
    raise ApiError(0, "No answer", "the API is away")
