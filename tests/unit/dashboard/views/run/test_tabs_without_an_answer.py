"""Tabs of an ended run that are opened while the API is away: of a real API, until then."""

from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest
from app_in_process import TLT, api_of_app, opened_app, pair
from database_copies import DatabaseCopies

from dashboard import page_files
from dashboard.views.run.tab_list import tabs_of
from dashboard.widgets.panel import NONE_CAME
from longtail import ApiError

EMPTY = (NONE_CAME, "Nothing logged yet.", "Not told by this run", "No sample is like that", "nothing that stands out")


@pytest.mark.parametrize("status", [401, 503])
def test_nothing_is_said_of_what_nobody_answered(
    tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise ApiError(status, "No answer", "no answer")

    with api_of_app(tmp_path, database_copies, monkeypatch, pair()) as api:
        page = opened_app(api)
        page.run()
        page.switch_page(page_files.RUN)
        page.query_params["id"] = TLT
        assert not page.run().exception
        tabs = [tab.name for tab in tabs_of(api.run(TLT))]
        request = api._request
        monkeypatch.setattr(api, "_request", lambda method, path, **options: _answer(request, refuse, method, path, options))
        for tab in tabs[1:]:
            (control,) = (control for control in page.segmented_control if control.label == "Tabs")
            control.set_value(tab).run()
            assert not page.exception, tab
            told = [str(each.value) for each in (*page.caption, *page.code, *page.main) if isinstance(getattr(each, "value", None), str)]
            assert [text for text in told if any(word in text for word in EMPTY)] == [], tab


def _answer(request: Any, refuse: Any, method: str, path: str, options: dict[str, Any]) -> httpx.Response:
    """Of the run itself, so that its page is drawn; nothing of what it has reported."""
    found: httpx.Response = request(method, path, **options) if path.count("/") <= 4 else refuse()
    return found
