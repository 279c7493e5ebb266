"""Streamlit's scripts and styles, compressed: it sends them as they are, 8 MB for a page with charts, and leaves the rest to a proxy,
which the dashboard of one machine does not have."""

import gzip
from functools import lru_cache
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit.file_util import get_static_dir

FOLDER = "/static/"
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
LEVEL, KEPT_FILES = 6, 512
HEADERS = {"content-encoding": "gzip", "vary": "accept-encoding", "cache-control": "public, immutable, max-age=31536000"}
"""Their names have a hash of what is in them: a browser may keep them for good."""


class CompressedFiles:
    """Whatever it does not compress, ``app`` answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = await run_in_threadpool(compressed, scope["path"]) if _is_compressible(scope) else None
        if content is None:
            await self._app(scope, receive, send)
        else:
            await Response(content, headers=HEADERS, media_type=TYPES[Path(scope["path"]).suffix])(scope, receive, send)


def _is_compressible(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(FOLDER):
        return False
    return Path(scope["path"]).suffix in TYPES and "gzip" in Request(scope).headers.get("accept-encoding", "")


@lru_cache(KEPT_FILES)
def compressed(path: str) -> bytes | None:
    """Once for each file, as long as the server lives. None if Streamlit has no such file."""
    folder = Path(get_static_dir()).resolve()
    file = (folder / path.removeprefix("/")).resolve()
    return gzip.compress(file.read_bytes(), LEVEL, mtime=0) if file.is_relative_to(folder) and file.is_file() else None
