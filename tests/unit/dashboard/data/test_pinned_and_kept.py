"""What a user keeps, while the API is there and while it is not: with a real API."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from dashboard.auth import api_client
from longtail import ApiError


def script() -> None:
    """A page with pins, which are drawn anew after each click."""
    import streamlit as st

    from dashboard.data.preferences import change, keep, preference

    st.button("Pin", on_click=change, args=("pins", lambda pins: [*pins, "kl"]))
    st.button("Only loss", on_click=keep, args=("pins", ["loss"]))
    st.caption(" ".join(preference("pins")))


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    with api_with_runs(tmp_path, database_copies, (), "viewer") as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api


@pytest.fixture
def page() -> AppTest:
    return AppTest.from_function(script, default_timeout=300)


def told(page: AppTest) -> str:
    assert not page.exception
    return str(page.caption[0].value)


def test_a_click_in_vain_says_so_and_leaves_the_page_as_it_was(api: Counted, page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    api.set_preference("pins", ["reward"])
    assert told(page.run()) == "reward"
    with monkeypatch.context() as away:
        away.setattr(api, "_request", _no_answer)
        assert told(page.button[0].click().run()) == "reward"
        assert "Not kept" in page.toast[0].value
        assert told(page.button[1].click().run()) == "loss", "in this session, at least"
        assert "Not kept" in page.toast[0].value
    assert api.preferences() == {"pins": ["reward"]}
    assert told(page.button[0].click().run()) == "reward kl"
    assert not page.toast


def _no_answer(*_: object, **__: object) -> httpx.Response:
    raise ApiError(0, "No answer", "the API is away")
