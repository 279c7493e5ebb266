"""What a page is going to be drawn with, told to the browser along with the page: else it would hear of it only once the script has run."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.file_util import get_static_dir

CHARTS, TABLES, TEXTS = "PlotlyChart", "DataFrame", "Html"
DRAWN_WITH: Mapping[str, tuple[str, ...]] = {
    "/": (TABLES, TEXTS),
    "/run": (CHARTS, TEXTS),
    "/compare": (CHARTS, TEXTS),
}
"""Streamlit's modules by the page that begins with them."""
IMPORTED = re.compile(r'(?:from|import)"\./([\w.-]+\.js)"')


class PreloadedFiles:
    """Adds to the pages of ``app`` the header that names their modules."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = DRAWN_WITH.get(scope["path"], ()) if scope["type"] == "http" else ()

        async def with_link(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers["link"] = ", ".join(f"<{path}>; rel=modulepreload; crossorigin" for name in names for path in modules(name))
            await send(message)

        await self._app(scope, receive, with_link if names else send)


@lru_cache
def modules(name: str) -> list[str]:
    """The paths of a module of Streamlit's, which comes first, and of those that it imports, without what every page begins with. Empty
    if there is no such module: they are Streamlit's own affair."""
    folder = Path(get_static_dir()) / "static" / "js"
    begun = set(re.findall(r"static/js/([\w.-]+\.js)", (Path(get_static_dir()) / "index.html").read_text(encoding="utf-8")))
    found = [file.name for file in folder.glob(f"{name}.*.js")]
    return [f"/static/js/{file}" for file in dict.fromkeys(needed for first in found for needed in _imports(folder, first, set(begun)))]


def _imports(folder: Path, file: str, known: set[str]) -> Iterator[str]:
    if file not in known:
        known.add(file)
        yield file
        for each in IMPORTED.findall((folder / file).read_text(encoding="utf-8")):
            yield from _imports(folder, each, known)
