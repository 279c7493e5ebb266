"""What of New run is a draft: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard.auth import api_client
from dashboard.views.new import config_editor
from engine.config import RunConfig

OLDER, NEWEST = identity(0, 0), identity(0, 1)


def script() -> None:
    import streamlit as st

    if st.session_state.get("away"):
        st.stop()

    from dashboard.data.config_schema import config_schema
    from dashboard.views.new.config_editor import choose_origin, edit_config, recent_runs
    from dashboard.views.new.draft_store import present_draft

    recent_runs.clear()  # of another test
    origin = choose_origin()
    st.session_state["config"] = edit_config(config_schema(), origin.config)[0]
    st.session_state["empty"] = present_draft("", "").is_empty


@pytest.fixture
def page(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppTest]:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 7}))
    plans = [PlannedRun(run_id, config, "succeeded", 1, 1.8e9 + number) for number, run_id in enumerate((OLDER, NEWEST))]
    monkeypatch.setattr(config_editor, "RECENT", 1)
    with api_with_runs(tmp_path, database_copies, plans, "editor") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        shown = AppTest.from_function(script, default_timeout=300)
        shown.session_state["me"] = api.me()
        yield shown.run()


def edit_as(page: AppTest, editor: str) -> None:
    page.segmented_control(key="editor").set_value(editor).run()
    assert not page.exception


def test_a_look_at_the_yaml_is_no_draft(page: AppTest) -> None:
    for editor in ("YAML", "Form"):
        edit_as(page, editor)
        assert page.session_state["empty"], editor


def test_a_typed_yaml_is_one_in_both_editors(page: AppTest) -> None:
    edit_as(page, "YAML")
    page.text_area(key="yaml").set_value("name: typed").run()
    assert not page.session_state["empty"]
    edit_as(page, "Form")
    assert not page.session_state["empty"]
    assert page.text_input[0].value == "typed"


def test_what_was_typed_into_the_form_outlives_a_look_at_the_yaml(page: AppTest) -> None:
    name = page.text_input[0]
    name.set_value("typed").run()
    for editor in ("YAML", "Form"):
        edit_as(page, editor)
        assert not page.session_state["empty"], editor
    assert page.text_input[0].value == "typed"


def test_the_yaml_of_a_run_that_is_offered_no_longer_stays_what_is_edited(page: AppTest) -> None:
    """The address has named it; on the way back from another page it does not."""
    page.query_params["from"] = OLDER
    page.run()
    edit_as(page, "YAML")
    read = page.session_state["config"]
    page.session_state["away"] = True
    page.run()
    page.query_params.clear()
    page.session_state["away"] = False
    page.run()
    assert page.session_state["from"] != OLDER
    assert page.session_state["config"] == read
    edit_as(page, "Form")
    assert page.session_state["config"] == read
    assert not page.session_state["empty"]
