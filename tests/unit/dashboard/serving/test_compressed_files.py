"""Streamlit's own files come compressed, and nothing else does."""

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit.file_util import get_static_dir

from dashboard.serving.compressed_files import CompressedFiles, compressed

STYLE = next(Path(get_static_dir()).glob("static/css/index.*.css"))


@pytest.fixture
def visitor() -> TestClient:
    app = Starlette(routes=[Route("/{path:path}", lambda _: PlainTextResponse("inside"))], middleware=[Middleware(CompressedFiles)])
    return TestClient(app)


def test_a_style_comes_compressed_and_may_be_kept(visitor: TestClient) -> None:
    reply = visitor.get(f"/static/css/{STYLE.name}")
    assert reply.headers["content-encoding"] == "gzip"
    assert int(reply.headers["content-length"]) < STYLE.stat().st_size / 2
    assert "immutable" in reply.headers["cache-control"]
    assert reply.content == STYLE.read_bytes()


def test_whoever_cannot_unpack_it_gets_it_as_it_is(visitor: TestClient) -> None:
    assert visitor.get(f"/static/css/{STYLE.name}", headers={"accept-encoding": "identity"}).text == "inside"


@pytest.mark.parametrize("path", ["/static/css/none.css", "/static/media/x.woff2", "/run", "/static/%2e%2e/%2e%2e/file_util.js"])
def test_all_else_is_left_to_streamlit(visitor: TestClient, path: str) -> None:
    assert visitor.get(path).text == "inside"


def test_nothing_outside_of_the_folder_is_read() -> None:
    assert compressed(f"/static/../../../{Path(__file__).name}") is None
