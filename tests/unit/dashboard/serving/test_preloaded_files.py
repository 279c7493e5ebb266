"""A page names what it is going to be drawn with."""

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit.file_util import get_static_dir

from dashboard.serving.preloaded_files import CHARTS, DRAWN_WITH, PreloadedFiles, modules


@pytest.fixture
def visitor() -> TestClient:
    app = Starlette(routes=[Route("/{path:path}", lambda _: HTMLResponse("page"))], middleware=[Middleware(PreloadedFiles)])
    return TestClient(app)


def test_the_page_of_a_run_names_what_draws_charts(visitor: TestClient) -> None:
    link = visitor.get("/run?id=1").headers["link"]
    assert "/static/js/PlotlyChart." in link
    assert link.count("rel=modulepreload") == link.count("<") < 20
    assert "link" not in visitor.get("/settings").headers


@pytest.mark.parametrize("name", sorted({name for names in DRAWN_WITH.values() for name in names}))
def test_streamlit_has_the_modules_and_they_are_named_once(name: str) -> None:
    found = modules(name)
    assert found, f"Streamlit has renamed {name}: pages load, but later"
    assert len(set(found)) == len(found)
    assert all((Path(get_static_dir()) / path.removeprefix("/")).is_file() for path in found)
    assert not any("/index." in path for path in found), "every page begins with it"


def test_a_module_that_is_not_there_is_left_out() -> None:
    assert modules("NoSuchModule") == []
    assert len(modules(CHARTS)) > 1, "with what it imports"
