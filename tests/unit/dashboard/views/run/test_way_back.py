"""The way back to the page of a run, whose address Streamlit leaves in the browser's history without parameters: of a real API."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from api_in_process import Counted
from app_in_process import PLAIN, TLT, api_of_app, opened_app, pair
from database_copies import DatabaseCopies
from streamlit.runtime.scriptrunner import RerunData
from streamlit.testing.v1 import AppTest, local_script_runner

from dashboard import page_files


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    with api_of_app(tmp_path, database_copies, monkeypatch, pair()) as api:
        yield api


@pytest.fixture
def page(api: Counted) -> AppTest:
    page = opened_app(api)
    return page.run()


def opened(page: AppTest, file: str, **address: str) -> AppTest:
    page.switch_page(file)
    page.query_params.clear()
    page.query_params.update(address)
    page.run()
    assert not page.exception
    return page


def choose(page: AppTest, tab: str) -> None:
    next(control for control in page.segmented_control if control.label == "Tabs").set_value(tab).run()


def shown(page: AppTest) -> tuple[str, str]:
    (tabs,) = (control for control in page.segmented_control if control.label == "Tabs")
    return page.query_params["id"], str(tabs.value)


def test_it_leads_to_the_tab_that_was_open(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(opened(page, page_files.RUN, id=TLT), "Speculation")
    opened(page, page_files.WORKERS)
    monkeypatch.setattr(local_script_runner, "RerunData", partial(RerunData, is_history_navigation=True))
    assert shown(opened(page, page_files.RUN)) == (TLT, "Speculation")
    assert page.query_params["tab"] == "Speculation", "and so does the way forward"


def test_a_link_leads_to_the_tab_that_it_names_or_to_the_first(page: AppTest) -> None:
    choose(opened(page, page_files.RUN, id=TLT), "Speculation")
    opened(page, page_files.WORKERS)
    assert shown(opened(page, page_files.RUN, id=PLAIN)) == (PLAIN, "Overview")
    opened(page, page_files.WORKERS)
    assert shown(opened(page, page_files.RUN, id=TLT, tab="Logs")) == (TLT, "Logs")
