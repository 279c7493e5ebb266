"""``longtail bench pages``, the first visit: how long a page takes in a browser that has nothing of it yet, and how much comes down."""

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from backend.bench.browser import opened, visitor
from backend.stack.local_stack import Stack

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

VISITS = 3


def cold_run(browser: "Browser", stack: Stack, path: str) -> dict[str, float]:
    """Seconds, and bytes as they are sent: of files compressed, of the connection that stays open without its own compression."""
    found = []
    for _ in range(VISITS):
        with visitor(browser, stack) as context:
            found.append(visit(context, path))
    return {
        "cold_run_s": round(median(seconds for seconds, _, _ in found), 2),
        "cold_bytes": max(files + frames for _, files, frames in found),
        "cold_connection_bytes": max(frames for _, _, frames in found),
    }


def visit(context: "BrowserContext", path: str) -> tuple[float, int, int]:
    """Seconds, bytes of files, and bytes of the connection."""
    page = context.new_page()
    network = context.new_cdp_session(page)
    files: list[int] = []
    frames: list[int] = []

    def loaded(event: Mapping[str, Any]) -> None:
        files.append(int(event["encodedDataLength"]))

    network.on("Network.loadingFinished", loaded)
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(len(frame))))
    network.send("Network.enable")
    return opened(page, path), sum(files), sum(frames)
