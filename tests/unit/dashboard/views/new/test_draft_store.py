"""What of New run is a draft: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from dashboard.auth import api_client


def script() -> None:
    import streamlit as st

    from dashboard.data.config_schema import config_schema
    from dashboard.views.new.config_editor import choose_origin, edit_config
    from dashboard.views.new.draft_store import present_draft

    origin = choose_origin()
    edit_config(config_schema(), origin.config)
    st.session_state["empty"] = present_draft("", "").is_empty


@pytest.fixture
def page(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppTest]:
    with api_with_runs(tmp_path, database_copies, [], "editor") as api:
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
