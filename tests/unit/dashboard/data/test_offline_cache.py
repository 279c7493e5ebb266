"""When the last answer is shown again, and when the API is asked."""

from collections.abc import Callable

import pytest
import streamlit as st

from dashboard.data import offline_cache
from dashboard.data.offline_cache import fetch_or_cached
from longtail import ApiError

Asked = Callable[..., int | None]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """How often ``fetch`` was called by then, or None if there is nothing to show; it is called at the second ``now``."""
    calls: list[str] = []
    monkeypatch.setattr(st, "session_state", {})

    def ask(question: str, now: float = 0.0, since: float | None = None, away: bool = False) -> int | None:
        def fetch() -> int:
            if away:
                raise ApiError(0, "No server", "it is away")
            calls.append(question)
            return len(calls)

        monkeypatch.setattr(offline_cache, "monotonic", lambda: now)
        return fetch_or_cached("key", question, fetch) if since is None else fetch_or_cached("key", question, fetch, since)

    return ask


def test_an_answer_serves_as_long_as_it_is_asked_for_the_same_and_is_not_too_old(asked: Asked) -> None:
    assert [asked("a", now=10, since=8), asked("a", now=12, since=8), asked("a", now=14, since=12)] == [1, 1, 2]
    assert [asked("b", now=14, since=12), asked("b"), asked("b")] == [3, 4, 5]


def test_while_the_api_is_away_the_last_answer_to_the_same_question_is_shown(asked: Asked) -> None:
    assert [asked("a", since=0), asked("a", since=5, away=True), asked("b", since=5, away=True)] == [1, 1, None]
