"""An open page of users while another admin changes one of them: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from dashboard import page_files
from dashboard.auth import api_client
from longtail.schemas.identity import User

PAGE = Path(page_files.__file__).parent / page_files.SETTINGS


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    with api_with_runs(tmp_path, database_copies, [], "admin") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api


@pytest.fixture
def bob(api: Counted) -> User:
    return api.add_user("bob", "admin")


@pytest.fixture
def page(api: Counted, bob: User) -> AppTest:  # noqa: ARG001  (who is there when it is opened)
    page = AppTest.from_file(PAGE, default_timeout=300)
    page.session_state["me"] = api.me()
    page.query_params["tab"] = "Users"
    return page.run()


def as_stored(api: Counted, user: User) -> User:
    return next(each for each in api.users().items if each.id == user.id)


def test_a_demotion_elsewhere_is_seen_not_undone(api: Counted, page: AppTest, bob: User) -> None:
    api.change_user(bob.id, role="viewer")
    assert not page.run().exception
    assert as_stored(api, bob).role == "viewer"
    assert "viewer" in [choice.value for choice in page.selectbox if choice.label == "Role"]


def test_disable_does_not_let_in_whom_somebody_has_shut_out_meanwhile(api: Counted, page: AppTest, bob: User) -> None:
    disable = next(button for button in page.button if button.key == f"disable-{bob.id}")
    api.change_user(bob.id, disabled=True)
    assert not disable.click().run().exception
    assert as_stored(api, bob).disabled


def test_a_role_that_is_chosen_is_written(api: Counted, page: AppTest, bob: User) -> None:
    choice = next(choice for choice in page.selectbox if choice.key and bob.id in choice.key)
    assert not choice.set_value("editor").run().exception
    assert as_stored(api, bob).role == "editor"
