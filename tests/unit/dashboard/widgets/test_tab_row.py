import pytest
from streamlit.testing.v1 import AppTest

NAMES = ["Overview", "Training", "Drafter"]


def script(names: list[str]) -> None:
    from dashboard.widgets.tab_row import tab_row

    chosen, place = tab_row(names)
    place.text(chosen)


def two_pages() -> None:
    """With a tab row each, and one with none between them."""
    import streamlit as st

    from dashboard.widgets.tab_row import tab_row

    if names := {"run": ["Overview", "Training"], "settings": ["Account", "Users"]}.get(st.session_state["page"]):
        st.text(tab_row(names)[0])


def page(**address: str) -> AppTest:
    shown = AppTest.from_function(script, args=(NAMES,), default_timeout=300)
    shown.query_params.update(address)
    return shown.run()


def drawn(page: AppTest) -> list[str]:
    return [text.value for text in page.text]


def test_no_answer_tells_the_page_which_tab_to_open_as_its_reader_may_be_farther_by_then() -> None:
    seen = page()
    assert drawn(seen) == ["Overview"]
    for name in ("Training", "Drafter"):
        (control,) = seen.segmented_control
        control.set_value(name).run()
        (control,) = seen.segmented_control
        assert (drawn(seen), control.proto.set_value) == ([name], False)


@pytest.mark.parametrize(("named", "opened"), [("Drafter", "Drafter"), ("of another run", "Overview"), ("", "Overview")])
def test_an_address_opens_its_tab_and_the_first_where_there_is_none(named: str, opened: str) -> None:
    assert drawn(page(tab=named)) == [opened]


def test_an_address_whose_tab_is_empty_marks_the_first_one_and_loses_it() -> None:
    seen = page(tab="", id="of a run")
    assert [control.value for control in seen.segmented_control] == ["Overview"]
    assert dict(seen.query_params) == {"id": "of a run"}
    assert drawn(seen) == ["Overview"]


def test_the_tab_of_one_page_does_not_get_into_the_address_of_another() -> None:
    seen = AppTest.from_function(two_pages, default_timeout=300)
    seen.session_state["page"] = "settings"
    seen.run().segmented_control[0].set_value("Users").run()
    for name in ("workers", "run"):
        seen.session_state["page"] = name
        seen.run()
    assert drawn(seen) == ["Overview"]
    assert dict(seen.query_params) == {}
