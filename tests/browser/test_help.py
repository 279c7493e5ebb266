"""Help in the app, and the tour that is offered at a first visit."""

from page_cases import tab
from playwright.sync_api import Page, expect

from longtail import Longtail
from longtail.schemas.runs import Run

DOUBLE_CLICK_MS = 150


def test_words_and_tabs_are_explained(page: Page, pair: tuple[Run, Run]) -> None:
    page.goto("/help")
    page.get_by_label("Find a word").fill("accept length")
    expect(page.get_by_text("Tokens that one pass of the target yields a request", exact=False).first).to_be_visible()
    page.goto(f"/run?id={pair[1].id}&tab=Timeline")
    page.get_by_role("button", name="How to read this").click()
    expect(page.get_by_text(f"GET /api/v1/runs/{pair[1].id}/spans")).to_be_visible()


def test_the_tour_has_five_stations_and_is_offered_once(page: Page, api: Longtail, pair: tuple[Run, Run]) -> None:
    assert pair
    api.set_preference("tour", [])
    page.goto("/")
    page.get_by_role("button", name="Show me around").click()
    station = page.locator(".st-key-tour")  # lists have a button to the next page, too
    ends = []
    for number in range(1, 6):
        expect(station).to_contain_text(f"{number} of 5:")
        leads_on = station.get_by_role("button", name="Next")
        ends.append(leads_on.evaluate("button => Math.round(button.getBoundingClientRect().right)"))
        if number in (3, 4):
            expect(tab(page, "Timeline" if number == 3 else "Speculation")).to_be_checked()
        if number < 5:
            leads_on.dblclick(delay=DOUBLE_CLICK_MS)
        else:
            station.get_by_role("button", name="Done").click()
    assert len(set(ends)) == 1, "a button that moves while its station is drawn can be missed"
    expect(page.get_by_text("5 of 5:")).to_have_count(0)
    assert api.preferences()["tour"] == ["seen"]
    page.goto("/")
    expect(page.get_by_text("New here?")).to_have_count(0)
