"""The whole way without a mouse: in, a run submitted and steered, two compared, a drafter taken away, out."""

import hashlib
import re
from pathlib import Path

from page_cases import tab, until
from playwright.sync_api import Locator, Page, expect

from longtail import Longtail
from longtail.schemas.runs import Run

PASSWORD = "correct horse battery"
FARTHEST = 120
"""Presses of Tab."""
IS_FOCUSED = "part => part.contains(document.activeElement)"
FRAME = "xpath=ancestor-or-self::*[@data-testid='stElementContainer' or self::a][1]"


def go(page: Page, part: Locator, key: str = "Tab") -> None:
    """Presses the key until the part has the focus."""
    expect(part).to_be_visible()
    for _ in range(FARTHEST):
        if part.evaluate_all(f"parts => parts.some({IS_FOCUSED})"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{key} does not lead to {part}")


def press(page: Page, part: Locator, key: str = "Enter") -> None:
    go(page, part)
    page.keyboard.press(key)


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def test_from_coming_in_to_going_out(stranger: Page, api: Longtail, pair: tuple[Run, Run], random_model: Path, tmp_path: Path) -> None:
    page = stranger
    api.add_user("ada", "editor", PASSWORD)
    page.goto("/new")
    expect(page.get_by_label("User")).to_be_focused()
    page.keyboard.type("ada")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    submitted(page, random_model)
    run = steered(page, api)
    assert run.state == "cancelled"
    compared(page, pair)
    taken_away(page, api, pair[1], tmp_path / "drafter")
    press(page, page.get_by_role("link", name="Settings"))
    press(page, button(page, "Log out"))
    expect(page.get_by_text("You are logged out")).to_be_visible()


def submitted(page: Page, model: Path) -> None:
    for label, text in (("Name", "slow, by keyboard"), ("Model", str(model)), ("Steps", "300")):
        go(page, page.get_by_label(label, exact=True))
        page.keyboard.press("Control+A")
        page.keyboard.type(text)
    press(page, button(page, "Start run"), "Space")
    expect(page).to_have_url(re.compile(r"/run\?id=[0-9a-f]{16}"))


def steered(page: Page, api: Longtail) -> Run:
    """Pauses, resumes and cancels the run that the page shows."""
    run_id = page.url[-16:]
    until(lambda: api.run(run_id), lambda run: run.step > 0)
    press(page, button(page, "Pause"))
    until(lambda: api.run(run_id), lambda run: run.state == "paused")
    press(page, button(page, "Resume"))
    until(lambda: api.run(run_id), lambda run: run.state == "running")
    press(page, button(page, "Cancel run"))
    press(page, button(page, "Cancel the run"))
    return until(lambda: api.run(run_id), lambda run: run.finished)


def compared(page: Page, pair: tuple[Run, Run]) -> None:
    press(page, page.get_by_role("link", name="Runs", exact=True))
    search = page.get_by_placeholder("Search")
    go(page, search)
    page.keyboard.type(pair[1].id)
    grid = page.get_by_test_id("data-grid-canvas")
    expect(page).to_have_url(re.compile(f"q={pair[1].id}"))  # all of it, not only so much that one run is left
    until(lambda: page.locator("[data-testid=stDataFrame] tbody tr").count(), lambda count: count == 1)
    go(page, grid)
    for key in ("ArrowDown", "ArrowDown", "Shift+Space"):
        page.keyboard.press(key)
    expect(page.get_by_text("1 run selected")).to_be_visible()
    go(page, button(page, "Open run"), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(pair[1].id))
    go(page, tab(page, "Overview"))
    for _ in range(6):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")  # opens the tab, while the answer for the one before is on its way
    expect(tab(page, "Drafter")).to_be_checked()
    expect(page).to_have_url(re.compile("tab=Drafter"))
    expect(page.get_by_text("Held-out accuracy", exact=True)).to_be_visible()
    expect(tab(page, "Drafter")).to_be_checked()
    go(page, page.get_by_role("button", name=re.compile("Compare with")), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("End-to-end speed-up", exact=True)).to_be_visible()


def taken_away(page: Page, api: Longtail, run: Run, file: Path) -> None:
    press(page, page.get_by_role("link", name="Artifacts"))
    go(page, page.get_by_placeholder("name, run, base model or checksum"))
    page.keyboard.type(run.id)
    expect(page).to_have_url(re.compile(f"search={run.id}"))  # all of it: what is drawn for less of it would take the focus away
    link = page.get_by_role("link", name="Download")
    expect(link).to_have_count(1)
    go(page, link)
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    download.value.save_as(file)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == api.artifacts(run.id)[0].sha256


def controls(page: Page) -> list[Locator]:
    """One of each kind."""
    labelled = [page.get_by_label(label, exact=True) for label in ("Name", "Seed", "Speculative rollout", "Tuner", "Notes")]
    pills = page.get_by_test_id("stButtonGroup").get_by_text("drafter", exact=True).locator("xpath=ancestor-or-self::button")
    return [page.get_by_role("link", name="Runs", exact=True), pills, *labelled, button(page, "Start run")]


def test_what_has_the_focus_is_seen(page: Page) -> None:
    page.goto("/new")
    expect(button(page, "Start run")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.keyboard.press("Tab")
        for control in controls(page):
            page.evaluate("document.activeElement.blur()")
            frame = control.locator(FRAME)
            without = still(frame)
            control.focus()
            until(frame.screenshot, lambda seen, without=without: seen != without)  # type: ignore[misc]


def still(frame: Locator) -> bytes:
    """A picture of it when nothing moves any more."""
    pictures = [b"", frame.screenshot()]
    while pictures[-1] != pictures[-2]:
        pictures.append(frame.screenshot())
    return pictures[-1]
