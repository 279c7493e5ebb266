"""A click on "Compare with" that is heard in a moment when the page cannot draw that button: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted
from app_in_process import PLAIN, TLT, api_of_app, opened_app, pair
from database_copies import DatabaseCopies
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from dashboard import page_files


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    with api_of_app(tmp_path, database_copies, monkeypatch, pair()) as api:
        yield api


@pytest.fixture
def page(api: Counted) -> AppTest:
    page = opened_app(api)
    page.run()
    page.switch_page(page_files.RUN)
    page.query_params["id"] = TLT
    return page.run()


def hear_comparison(page: AppTest) -> None:
    button = next(button for button in page.button if button.label.startswith("Compare with"))
    states = page._tree.get_widget_states()
    states.widgets.append(WidgetState(id=button.proto.id, trigger_value=True))
    page._run(states)


def test_it_leads_there_although_the_other_run_is_found_no_more(page: AppTest, api: Counted) -> None:
    api.delete(PLAIN)
    api.delete(TLT)
    hear_comparison(page)
    assert page.header[0].value == "Compare"


def test_it_leads_nowhere_once_another_page_is_opened(page: AppTest) -> None:
    page.switch_page(page_files.WORKERS)
    hear_comparison(page)
    page.switch_page(page_files.RUN).run()
    assert page.header[0].value == "countdown TLT"
