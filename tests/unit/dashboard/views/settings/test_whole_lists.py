"""Lists of Settings that are longer than a page of the API: of a real API."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from dashboard import page_files
from dashboard.auth import api_client

PAGE = Path(page_files.__file__).parent / page_files.SETTINGS


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """That gives one item a page."""
    with api_with_runs(tmp_path, database_copies, [], "admin") as api:
        request = api._request

        def ask(method: str, path: str, **options: Any) -> httpx.Response:
            given = options.get("params") or {}
            return request(method, path, **options | ({"params": given | {"limit": 1}} if "limit" in given else {}))

        monkeypatch.setattr(api, "_request", ask)
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api


@pytest.mark.parametrize(("tab", "kind"), [("Account", "token"), ("Users", "user"), ("Webhooks", "hook"), ("Projects", "project")])
def test_nothing_of_it_is_left_out(api: Counted, tab: str, kind: str) -> None:
    names = [f"{kind}-{name}" for name in ("mountain", "river")]
    for name in ("mountain", "river"):
        api.create_token(f"token-{name}")
        api.add_user(f"user-{name}")
        api.add_webhook(f"https://example.org/hook-{name}")
        api.create_project(f"project-{name}")
    page = AppTest.from_file(PAGE, default_timeout=300)
    page.session_state["me"] = api.me()
    page.query_params["tab"] = tab
    assert not page.run().exception
    chosen_from = [option for choice in page.selectbox for option in choice.options]
    shown = " ".join([*(str(text.value) for text in page.text), *chosen_from])
    assert all(name in shown for name in names)
