"""What the rows of Settings are called where a window is too narrow for columns: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from dashboard import page_files
from dashboard.auth import api_client

PAGE = Path(page_files.__file__).parent / page_files.SETTINGS


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    with api_with_runs(tmp_path, database_copies, [], "admin") as api:
        for project in api.projects().items:
            api.set_member(project.id, "ada", "admin")
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api


@pytest.mark.parametrize(
    ("tab", "rows", "labels"),
    [
        ("Account", "tokens", ("What it is for", "Kind", "Acts as", "Last used", "Expires")),
        ("Users", "users", ("Name", "Role", "State", "Since")),
        ("Projects", "members", ("Member", "Role")),
    ],
)
def test_each_column_has_its_label(api: Counted, tab: str, rows: str, labels: tuple[str, ...]) -> None:
    page = AppTest.from_file(PAGE, default_timeout=300)
    page.session_state["me"] = api.me()
    page.query_params["tab"] = tab
    page.run()
    assert not page.exception
    styles = [element.proto.body for element in page.get("html")]
    (labelled,) = [style for style in styles if f".st-key-rows-{rows} " in style]
    for place, label in enumerate(labels, 1):
        assert f':nth-child({place}){{--label:"{label}"}}' in labelled
