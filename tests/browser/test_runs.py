"""The list of runs: found, sorted, opened, compared and changed, with what was chosen in the address."""

import re

import pytest
from grid import Grid
from page_cases import Submit, finished, until
from playwright.sync_api import Page, expect
from sizes import only_with_all

from longtail import Longtail
from longtail.schemas.runs import Run

Pair = tuple[Run, Run]
HOSTILE = (
    "<img src=x onerror=alert(1)> **bold** ![i](http://evil.example/x.png) :material/home: 🚀 \u05d0\u05d1\u05d2 $x^2$ www.evil.example"
)
ENTER_WHILE_DRAWN_ANEW = """(canvas, row) => {
    canvas.focus();
    canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true}));
    canvas.blur();
    canvas.focus();
    document.getElementById(row).focus();
}"""
"""The row gets the focus back after the key, and its canvas once more before that. At once, or the grid itself could give it back."""


@pytest.fixture
def grid(page: Page) -> Grid:
    return Grid(page)


def test_the_list_shows_how_runs_do_and_opens_one(page: Page, grid: Grid, api: Longtail, pair: Pair) -> None:
    page.goto("/?tag=pair")
    plain, tlt = pair
    grid.has(tlt.name, plain.name)
    (glance,) = api.glances([tlt.id])
    cells = until(grid.rows, bool)[0]
    assert (cells["Step"], cells["State"], cells["Kind"]) == ("30 / 30", "succeeded", "TLT")
    assert float(cells["Speed-up"].rstrip("×")) == pytest.approx(glance.speedup, abs=0.005)
    assert glance.partner_id == plain.id
    grid.open(tlt.name)
    expect(page).to_have_url(re.compile(f"/run\\?id={tlt.id}"))
    expect(page.get_by_role("heading", name=tlt.name)).to_be_visible()


@only_with_all
def test_what_draws_charts_is_read_before_a_run_is_opened(page: Page, grid: Grid, pair: Pair) -> None:
    with page.expect_response(re.compile("/static/js/PlotlyChart")):
        page.goto("/")
        grid.row(pair[0].name)


def test_the_choice_is_in_the_address_and_lives_through_a_reload(page: Page, grid: Grid, pair: Pair) -> None:
    page.goto("/")
    until(grid.names, bool)  # from now on the tags that are offered stay, and with them what is typed there
    page.get_by_placeholder("Search").fill("countdown")
    page.get_by_role("button", name="succeeded").or_(page.get_by_role("radio", name="succeeded")).first.click()
    tags = page.get_by_label("Tags", exact=True)
    tags.fill("pair")
    tags.press("Enter")
    where = page.get_by_label("Conditions", exact=True)
    where.fill("config.speculation.enabled=false")
    where.press("Enter")
    grid.has(pair[0].name)
    for part in ("q=countdown", "state=succeeded", "tag=pair", "where=config.speculation.enabled"):
        expect(page).to_have_url(re.compile(re.escape(part)))
    page.reload()
    grid.has(pair[0].name)
    expect(page.get_by_placeholder("Search")).to_have_value("countdown")
    page.goto("/?q=no+such+run")
    expect(page.get_by_text("No run matches")).to_be_visible()


def test_a_wrong_condition_is_explained(page: Page, grid: Grid, pair: Pair) -> None:
    page.goto("/?where=seed")
    expect(page.get_by_role("alert")).to_contain_text("seed is no condition. Write a field of the configuration or a metric")
    expect(page.get_by_role("alert")).not_to_contain_text("pattern")
    page.goto("/?tag=pair&where=config.seed=0")
    grid.has(pair[1].name, pair[0].name)


@only_with_all
def test_a_click_on_a_head_sorts_and_a_second_the_other_way(page: Page, grid: Grid, pair: Pair) -> None:
    page.goto("/?tag=pair")
    plain, tlt = sorted(pair, key=lambda run: run.name)
    grid.row(plain.name)
    for mark, order in (("▼", (plain.name, tlt.name)), ("▲", (tlt.name, plain.name))):
        grid.sort_by_name(mark)
        grid.has(*order)
    expect(page).to_have_url(re.compile("sort=name"))


def test_selected_runs_are_compared_with_the_plain_one_first(page: Page, grid: Grid, pair: Pair) -> None:
    page.goto("/?tag=pair")
    grid.select(*(run.name for run in pair))
    page.get_by_role("button", name="Compare 2").click()
    expect(page).to_have_url(re.compile(f"/compare\\?runs={pair[0].id}(,|%2C){pair[1].id}"))


def test_runs_are_selected_and_opened_by_keyboard(page: Page, grid: Grid, pair: Pair) -> None:
    page.goto("/?tag=pair")
    row = grid.row(pair[0].name)
    grid.canvas.focus()
    for key in (*["ArrowDown"] * row, "Shift+Space"):
        page.keyboard.press(key)
    expect(page.get_by_text("1 run selected")).to_be_visible()
    expect(page.get_by_role("button", name="Open run")).to_be_enabled()
    grid.canvas.evaluate(ENTER_WHILE_DRAWN_ANEW, f"glide-cell-1-{row}")
    expect(page).to_have_url(re.compile(f"/run\\?id={pair[0].id}"))


def test_on_a_phone_runs_are_cards_and_a_table_on_request(page: Page, pair: Pair) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/?tag=pair")
    card = page.get_by_role("listitem").filter(has=page.get_by_role("link", name=pair[1].name))
    expect(card).to_contain_text("succeeded · TLT · 100 %")
    expect(page.get_by_test_id("stDataFrame")).to_be_hidden()
    page.get_by_text("As a table").click()
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()
    expect(card).to_be_hidden()
    page.get_by_text("As a table").click()
    card.get_by_role("link").click()
    expect(page).to_have_url(re.compile(f"/run\\?id={pair[1].id}"))


def test_on_a_phone_runs_grouped_by_seeds_can_be_selected_and_a_deletion_taken_back(page: Page, api: Longtail, submit: Submit) -> None:
    run = finished(api, submit(name="gone on a phone", algorithm={"steps": 2}))
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/?q=gone+on+a+phone")
    delete = page.get_by_role("button", name="Delete", exact=True)
    expect(page.get_by_role("link", name=run.name)).to_be_visible()
    expect(delete).to_be_hidden()
    page.get_by_text("Group seeds").click()
    expect(page.locator(".cards").get_by_text("Seeds")).to_be_visible()
    expect(page.get_by_role("link", name=run.name)).to_be_visible()
    expect(delete).to_be_hidden()
    page.get_by_text("As a table").click()
    expect(delete).to_be_visible()
    page.get_by_text("Group seeds").click()
    Grid(page).select(run.name)
    page.get_by_role("button", name="Delete 1").click()
    expect(page.get_by_text("No run matches")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    until(lambda: [found.id for found in api.runs(q="gone on a phone").items], lambda ids: ids == [run.id])


@only_with_all
def test_several_runs_are_cancelled_together_once_confirmed(page: Page, grid: Grid, api: Longtail, submit: Submit) -> None:
    runs = [submit(name=f"stuck together {number}") for number in (1, 2)]
    until(lambda: [api.run(run.id).state for run in runs], lambda states: states == ["running"] * 2)
    page.goto("/?q=stuck+together")
    grid.select(*(run.name for run in runs))
    page.get_by_role("button", name="Cancel 2", exact=True).click()
    expect(page.get_by_text("Cancel stuck together 2, stuck together 1?")).to_be_visible()
    assert not any(api.run(run.id).cancel_requested for run in runs)
    page.get_by_role("button", name="Cancel 2 runs").click()
    until(lambda: [api.run(run.id).state for run in runs], lambda states: states == ["cancelled"] * 2)
    until(lambda: [row["State"] for row in grid.rows()], lambda states: states == ["cancelled"] * 2)


def test_runs_are_tagged_deleted_and_taken_back(page: Page, grid: Grid, api: Longtail, submit: Submit) -> None:
    run = finished(api, submit(name="to be put away", algorithm={"steps": 2}))
    page.goto("/?q=put+away")
    grid.select(run.name)
    page.get_by_role("button", name="Tag", exact=True).click()
    page.get_by_role("textbox", name="Tag", exact=True).fill("<b>old</b>")
    page.get_by_role("button", name="Add", exact=True).click()
    until(lambda: api.run(run.id).tags, lambda tags: tags == ["<b>old</b>"])
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Delete 1").click()
    expect(page.get_by_text("Deleted 1 run")).to_be_visible()
    expect(page.get_by_text("No run matches")).to_be_visible()
    page.goto("/?q=put+away&deleted=true")
    grid.select(run.name)
    page.get_by_role("button", name="Restore 1").click()
    until(lambda: [found.id for found in api.runs(q="put away").items], lambda ids: ids == [run.id])


def test_foreign_text_is_shown_as_text(page: Page, grid: Grid, api: Longtail, submit: Submit) -> None:
    run = submit(name=HOSTILE, tags=("<i>tag</i>", ":smile:"), algorithm={"steps": 2})
    until(lambda: api.run(run.id), lambda run: run.finished)
    page.goto("/?q=🚀")
    grid.has(HOSTILE)
    assert "<i>tag</i>" in until(grid.rows, bool)[0]["Tags"]
    grid.select(HOSTILE)
    page.get_by_role("button", name="Delete 1").click()
    expect(page.get_by_text("Deleted 1 run")).to_be_visible()
    assert page.locator("[data-testid=stMain] :is(img[src^='http'], img[src=x], a[href*=evil], b:has-text('bold'), .katex)").count() == 0
    page.get_by_role("button", name="Undo").click()
    grid.has(HOSTILE)
