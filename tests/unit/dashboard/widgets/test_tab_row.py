from streamlit.proto.Block_pb2 import Block as BlockProto
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block

NAMES = ["Overview", "Training", "Drafter"]


def script(names: list[str]) -> None:
    import streamlit as st

    from dashboard.widgets.tab_row import count_run, tab_row

    count_run()
    st.radio("Page", ["run", "settings"], key="page")
    if st.session_state["page"] == "run":
        for name, tab in zip(names, tab_row(names, "tab"), strict=True):
            if tab.open:
                tab.text(name)


def page(**address: str) -> AppTest:
    shown = AppTest.from_function(script, args=(NAMES,), default_timeout=300)
    shown.query_params.update(address)
    return shown.run()


def row(block: Block) -> BlockProto.TabContainer | None:
    """The first row of tabs in it."""
    if block.type == "tab_container":
        proto: BlockProto = block.proto
        return proto.tab_container
    found = (row(child) for child in block.children.values() if isinstance(child, Block))
    return next((each for each in found if each), None)


def told(page: AppTest) -> str | None:
    """Which tab the page is told to open."""
    told = row(page.main)
    assert told is not None
    return NAMES[told.default_tab_index] if told.default_tab_index < len(NAMES) else None


def choose(page: AppTest, name: str) -> None:
    """As the reader's browser does."""
    drawn = row(page.main)
    assert drawn is not None
    states = WidgetStates()
    states.widgets.add(id=drawn.id, string_value=name)
    page._run(states)


def shown(page: AppTest) -> list[str]:
    return [text.value for text in page.text]


def test_an_answer_does_not_move_the_reader_who_may_be_farther_by_then() -> None:
    seen = page()
    assert told(seen) == "Overview"
    for name in ("Training", "Drafter"):
        choose(seen, name)
        assert (told(seen), shown(seen)) == (None, [name])


def test_a_page_is_told_which_tab_its_address_names() -> None:
    assert told(page(tab="Drafter")) == "Drafter"


def test_a_page_that_is_opened_once_more_is_told_again() -> None:
    seen = page()
    choose(seen, "Training")
    seen.radio[0].set_value("settings").run()
    seen.query_params["tab"] = "Training"
    seen.radio[0].set_value("run").run()
    assert (told(seen), shown(seen)) == ("Training", ["Training"])
