"""What stands at the button that starts a run, when something is wrong with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_in_process import Counted
from app_in_process import api_of_app, opened_app, pair
from database_copies import DatabaseCopies

from dashboard import page_files
from dashboard.views.new.fault_summary import fault_summary
from longtail.schemas.base import FieldError


@pytest.fixture
def api(tmp_path: Path, database_copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    with api_of_app(tmp_path, database_copies, monkeypatch, pair()) as api:
        yield api


def faults(*fields: str) -> list[FieldError]:
    return [FieldError(field=field, message="too *large*; lower it") for field in fields]


def test_one_fault_is_told_and_several_are_named() -> None:
    assert fault_summary([]) == ""
    assert fault_summary(faults("seed")) == r":red[Not to be started yet: `seed`: too \*large\*; lower it]"
    assert fault_summary(faults("a", "b", "b")).endswith(": `a`, `b`]")
    assert fault_summary(faults(*"abcde")).endswith(": `a`, `b`, `c` and 2 more]")


def test_the_page_says_at_the_button_what_is_wrong(api: Counted) -> None:
    page = opened_app(api).run()
    page.switch_page(page_files.NEW_RUN)
    page.run()
    assert not [each for each in page.markdown if "Not to be started yet" in each.value]
    next(each for each in page.text_input if each.label == "Name").set_value(" ").run()
    assert not page.exception
    (told,) = [each.value for each in page.markdown if "Not to be started yet" in each.value]
    assert "`name`: nothing of it can be seen" in told
