import pytest
from streamlit.testing.v1 import AppTest


def script(path: str) -> None:
    from dashboard.widgets.page_address import drop_foreign

    drop_foreign(path)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("run", {"id": "1", "tab": "Timeline", "q": "tiny"}),
        ("compare", {"runs": "1,2", "q": "tiny"}),
        ("settings", {"tab": "Timeline", "q": "tiny"}),
        ("new", {"from": "1", "q": "tiny"}),
        ("", {"q": "tiny"}),
    ],
)
def test_a_page_keeps_of_its_address_what_it_knows(path: str, kept: dict[str, str]) -> None:
    page = AppTest.from_function(script, args=(path,), default_timeout=300)
    page.query_params.update({"id": "1", "tab": "Timeline", "runs": "1,2", "from": "1", "q": "tiny"})
    assert not page.run().exception
    assert dict(page.query_params) == kept
