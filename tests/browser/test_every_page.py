"""Every page and tab, from a phone to a desk and in both themes: nothing is cut off, and nobody is shut out."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from page_cases import Submit, finished, guarded
from page_faults import faults_for_screen_readers, layout_faults
from playwright.sync_api import Browser, Page
from screenshots import addresses, press
from sizes import ALL, first

from backend.bench.browser import opened
from backend.stack.local_stack import Stack
from longtail import Longtail
from longtail.schemas.runs import Run

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("dark", "light")
WIDTHS = first(2, (390, 1440, 320, 800))
APART = ("login",)
"""Pages that Streamlit does not draw."""
TELLING = ("run-speculation", "run-timeline", "compare", "help")
SCROLL_HEIGHT = "(document.querySelector('[data-testid=stMain]') || document.body).scrollHeight"
HEIGHT, TALLEST, SETTLE_MS = 900, 6000, 600
LASTING_SECONDS = 60


@pytest.fixture(scope="session")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pictures go: LONGTAIL_SCREENSHOTS, or a folder of this test run."""
    named = os.environ.get("LONGTAIL_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.getbasetemp() / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def visitor(browser: Browser, stack: Stack, api: Longtail) -> Iterator[Page]:
    assert stack.dashboard_url is not None
    yield from guarded(browser, stack.dashboard_url, api.log_in_by_token(stack.token).token)


@pytest.fixture(scope="session")
def others(api: Longtail, submit: Submit) -> None:
    """A run that fails, one that a script tracks, one that trains a drafter only, and one that does other work than the pair."""
    if not ALL:
        return
    with api.track("tracked", {"rate": 0.001}, steps=3) as tracked:
        for step in range(3):
            tracked.log(step, {"loss": 1.0 / (step + 1)})
    drafter = {"path": None, "recipe": "eagle3", "pretrain_minutes": 10}
    submitted = [
        submit(name="broken"),
        submit(name="drafter only", algorithm={"steps": 0}, drafter=drafter),
        submit(name="shorter", rollout={"max_new_tokens": 512}, algorithm={"steps": 6}),
    ]
    assert [finished(api, run).state for run in submitted] == ["failed", "succeeded", "succeeded"]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scheme", first(1, SCHEMES))
@pytest.mark.usefixtures("others")
def test_nothing_is_cut_off_and_nobody_is_shut_out(
    visitor: Page, api: Longtail, pair: tuple[Run, Run], album: Path, scheme: Scheme
) -> None:
    visitor.emulate_media(color_scheme=scheme)
    found: dict[str, list[str]] = {}
    for name, path in addresses(api, pair[1].id, pair[0].id).items():
        if not ALL and name not in TELLING:
            continue
        visitor.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
        if name in APART:
            visitor.goto(path)
        else:
            opened(visitor, path)
        press(visitor, name)
        for width in WIDTHS:
            show_whole(visitor, width)
            visitor.screenshot(path=album / f"{name}-{width}-{scheme}.png")
            faults = lasting(lambda: layout_faults(visitor))
            if width == WIDTHS[0] or ALL:
                faults += lasting(lambda: faults_for_screen_readers(visitor))
            if faults:
                found[f"{name} at {width}"] = faults
    print(f"pictures: {album}")
    assert found == {}


def lasting(look: Callable[[], list[str]]) -> list[str]:
    """Faults that are still there when a busy machine, too, has drawn the page for its new width."""
    deadline = time.monotonic() + LASTING_SECONDS
    while (faults := look()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return faults


def show_whole(page: Page, width: int) -> None:
    """In a window as tall as the page, which scrolls inside of Streamlit's main element, if it has one."""
    for height in (HEIGHT, None):
        tall = height or min(TALLEST, 60 + int(page.evaluate(SCROLL_HEIGHT)))
        page.set_viewport_size({"width": width, "height": tall})
        page.wait_for_timeout(SETTLE_MS)
