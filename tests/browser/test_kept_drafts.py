"""What was typed into the form of a run comes back when the page is loaded anew."""

import re

from page_cases import until
from playwright.sync_api import Page, expect
from test_new_run import choose, fill, start

from longtail import Longtail

KEPT = "() => Object.entries(sessionStorage).filter(([key]) => key.startsWith('longtail-draft'))"


def test_a_draft_lives_through_a_reload_until_it_is_submitted(page: Page, api: Longtail) -> None:
    page.goto("/new")
    fill(page, "Name", "typed before a reload")
    fill(page, "Steps", "3")
    choose(page, "Algorithm", "dapo")
    fill(page, "Notes", "remember this")
    fill(page, "Tags", "kept")
    until(lambda: page.evaluate(KEPT), lambda kept: len(kept) == 1 and "remember this" in kept[0][1] and "kept" in kept[0][1])
    page.reload()
    expect(page.get_by_text("What you had typed is back")).to_be_visible()
    for label, value in (("Name", "typed before a reload"), ("Steps", "3"), ("Notes", "remember this"), ("Tags", "kept")):
        expect(page.get_by_label(label, exact=True)).to_have_value(value)
    expect(page.locator(".st-key-differences")).to_contain_text("algorithm.name")
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", name="Compare")).to_be_visible()
    page.get_by_role("link", name="New run").click()
    expect(page.get_by_label("Notes", exact=True)).to_have_value("remember this")
    start(page)
    expect(page).to_have_url(re.compile(r"/run\?id="))
    until(lambda: page.evaluate(KEPT), lambda kept: kept == [])
    page.get_by_role("link", name="New run").click()
    expect(page.get_by_label("Notes", exact=True)).to_have_value("")
    (run,) = api.runs(tag="kept").items
    assert (run.steps, run.notes, run.config["algorithm"]["name"]) == (3, "remember this", "dapo")


def test_a_link_wins_over_a_draft_and_no_draft_breaks_the_page(page: Page, api: Longtail) -> None:
    page.goto("/new")
    other = api.presets()[1].name
    fill(page, "Name", "typed")
    until(lambda: page.evaluate(KEPT), bool)
    page.goto(f"/new?from={other}")
    until(lambda: page.evaluate(KEPT), lambda kept: kept == [])
    expect(page.get_by_label("Name", exact=True)).to_have_value(api.presets()[1].config["name"])
    fill(page, "Name", "typed")
    ((key, _),) = until(lambda: page.evaluate(KEPT), bool)
    odd = f'{{"origin": "{other}", "edits": [["retired.field", 1], ["algorithm.steps", -5], ["name", "old"]], "options": {{"needs": 5}}}}'
    for text in ("{", '{"origin": "gone", "edits": [["name", "old"]]}', odd):
        page.evaluate("([key, text]) => sessionStorage.setItem(key, text)", [key, text])
        page.reload()
        expect(page.get_by_role("button", name="Start run")).to_be_visible()
        until(lambda: page.evaluate(KEPT), lambda kept, text=text: [key, text] not in kept)  # type: ignore[misc]  # it has taken it
    expect(page.get_by_label("Name", exact=True)).to_have_value("old")
    expect(page.locator(".st-key-fault-algorithm-steps")).to_contain_text("greater than or equal to 0")
    page.get_by_role("button", name="Start over").click()
    until(lambda: page.evaluate(KEPT), lambda kept: kept == [])
    expect(page.locator(".st-key-differences")).to_contain_text("Nothing yet")
