"""What runs have left, and what runs where."""

import hashlib
from itertools import pairwise
from pathlib import Path

from page_cases import until
from playwright.sync_api import Page, expect
from test_run_pages import Pair

from backend.demo_data import telemetry
from longtail import Longtail


def test_a_drafter_is_found_read_about_and_downloaded_whole(page: Page, api: Longtail, pair: Pair, tmp_path: Path) -> None:
    (artifact,) = api.artifacts(pair[1].id)
    page.goto(f"/artifacts?type=drafter&search={pair[1].id}")
    page.get_by_role("link", name=artifact.name).click()
    expect(page.get_by_role("heading", name=artifact.name)).to_be_visible()
    expect(page.get_by_text(artifact.sha256)).to_be_visible()
    expect(page.get_by_role("cell", name=pair[1].name)).to_be_visible()
    newest = next(each for each in reversed(api.drafters(pair[1].id)) if each.published)
    expect(page.get_by_role("table").last).to_contain_text(f"{newest.held_out_before:.3f} → {newest.held_out_after:.3f}")
    expect(page.get_by_text("Version 0: builtin")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    file = tmp_path / "drafter"
    download.value.save_as(file)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == artifact.sha256


def test_nothing_that_matches_is_said(page: Page, pair: Pair) -> None:
    page.goto(f"/artifacts?type=policy&search={pair[1].id}")
    expect(page.get_by_text("Nothing matches")).to_be_visible()


def test_a_run_that_waits_says_why_and_can_be_moved_and_cancelled(page: Page, api: Longtail, random_model: Path) -> None:
    config = telemetry.config(name="waits for a <b>GPU</b>", model={"path": str(random_model)})
    run = api.submit(config, needs="gpu:h200")
    page.goto("/workers")
    expect(page.get_by_text(api.workers().items[0].host).first).to_be_visible()
    expect(page.get_by_role("link", name="waits for a <b>GPU</b>")).to_be_visible()
    expect(page.get_by_text("no worker with space for runs offers gpu:h200")).to_be_visible()
    field = page.get_by_label("Priority of")
    field.fill("7")
    field.press("Enter")
    until(lambda: api.run(run.id).priority, lambda priority: priority == 7)
    page.locator(f".st-key-cancel-{run.id} button").click()
    page.get_by_role("button", name="Cancel the run").click()
    until(lambda: api.run(run.id).state, lambda state: state == "cancelled")
    expect(page.get_by_role("link", name="waits for a <b>GPU</b>")).to_have_count(0)


def test_on_a_telephone_rows_are_cards_of_labelled_cells(page: Page, pair: Pair) -> None:
    """Each cell is a line of its own, as wide as the card, with its heading before it; the row of headings is gone."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/artifacts?search={pair[1].id}")
    rows = page.locator(".st-key-rows-artifacts .stHorizontalBlock:has(> .stColumn)")
    expect(rows.nth(1).get_by_role("link", name="Download")).to_be_visible()
    expect(rows.first).to_be_hidden()
    cells = rows.nth(1).locator("> .stColumn").evaluate_all(CELLS)
    assert [cell["label"] for cell in cells] == list(HEADINGS)
    assert all(above["bottom"] <= below["top"] for above, below in pairwise(cells)), "one below the other"
    assert {cell["left"] for cell in cells} == {cells[0]["left"]}
    assert all(cell["right"] <= 390 for cell in cells), "nothing leaves the window"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "the page itself does not move"


HEADINGS = ("Name and version", "Type", "Run", "Base model", "Drafter version", "Accept length", "Size", "Made", "")
CELLS = """cells => cells.map(cell => {
    const {left, right, top, bottom} = cell.getBoundingClientRect();
    return {left, right, top, bottom, label: getComputedStyle(cell, "::before").content.replace(/^"|"$/g, "")};
})"""
