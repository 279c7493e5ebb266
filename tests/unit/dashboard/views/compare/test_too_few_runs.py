"""Compare with fewer runs than two, or with an address that somebody has cut: of a real API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted
from app_in_process import PLAIN, TLT, api_of_app, opened_app, pair
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from dashboard import page_files


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    with api_of_app(tmp_path, database_copies, monkeypatch, pair()) as api:
        yield api


def opened(api: Counted, **address: str) -> AppTest:
    page = opened_app(api)
    page.run()
    page.switch_page(page_files.COMPARE)
    page.query_params.update(address)
    return page.run()


def said(page: AppTest) -> list[str]:
    return [str(info.value).replace("\\", "") for info in page.info]


def test_one_run_alone_is_named_and_a_second_one_asked_for(api: Counted) -> None:
    page = opened(api, runs=PLAIN, over="")
    assert not page.exception
    assert said(page) == ["Add a run to compare countdown plain with. The first one is the baseline that the others are measured by."]
    (choice,) = (each for each in page.multiselect if each.label.startswith("Runs"))
    choice.set_value([PLAIN, TLT]).run()
    assert not page.exception
    assert said(page) == []
    assert dict(page.query_params) == {"runs": f"{PLAIN},{TLT}"}


def test_without_any_two_are_asked_for(api: Counted) -> None:
    page = opened(api, runs="")
    assert said(page) == ["Choose two runs or more. The first is the baseline that the others are measured by."]
