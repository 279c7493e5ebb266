"""What tests of pages share: a tab that notices faults, and looks at what is drawn there."""

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request
from sizes import SLOWNESS

from longtail import Longtail
from longtail.schemas.runs import Run

LOCAL = {"127.0.0.1", "localhost"}
OFFLINE_SCHEMES = {"data", "blob", "about"}
PROBES = ("/_stcore/health", "/_stcore/host-config")  # Streamlit looks for its server below a deep link first, and finds 404 there
REFUSALS = ("/login",)  # a wrong password is a 401, which Chromium logs
PATIENCE_MS = 120_000

T = TypeVar("T")
Submit = Callable[..., Run]


def finished(api: Longtail, run: Run) -> Run:
    return until(lambda: api.run(run.id), lambda run: run.finished)


def until(look: Callable[[], T], good: Callable[[T], bool], seconds: float = PATIENCE_MS / 1000) -> T:
    """The first of repeated looks that is good."""
    deadline = time.monotonic() + seconds
    while not good(seen := look()):
        assert time.monotonic() < deadline, f"still {seen}"
        time.sleep(0.1)
    return seen


def drawn(plot: Locator, expression: str) -> Any:
    """What ``expression``, a function of a chart with its ``data`` and ``layout``, gives of the newest drawing; None in the midst of it."""
    looks = f"charts => charts.map(chart => {{ try {{ return ({expression})(chart) }} catch {{ return null }} }})"
    return (plot.evaluate_all(looks) or [None])[-1]


def tab(page: Page, name: str) -> Locator:
    """Of a run's page, or of Settings: what opens it."""
    return page.get_by_role("radiogroup", name="Tabs").get_by_role("radio", name=name, exact=True)


def guarded(browser: Browser, url: str, session: str = "") -> Iterator[Page]:
    """A fresh tab. It fails the test if the page asks for anything outside this machine or logs an error."""
    context = browser.new_context(base_url=url, viewport={"width": 1440, "height": 1000}, accept_downloads=True)
    if session:
        name = f"longtail-session-{urlsplit(url).port}"
        context.add_cookies([{"name": name, "value": session, "url": url, "httpOnly": True, "sameSite": "Lax"}])
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWNESS})
    faults: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.location["url"].endswith(PROBES + REFUSALS):
            faults.append(f"console: {message.text} ({message.location['url']})")

    def asked(request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in OFFLINE_SCHEMES and address.hostname not in LOCAL:
            faults.append(f"request: {request.url}")

    page.on("console", heard)
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    context.on("request", asked)
    yield page
    context.close()
    assert faults == []
