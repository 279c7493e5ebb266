"""What is typed behind a button is still there after whatever happens to the page meanwhile."""

from page_cases import Submit, until
from playwright.sync_api import Locator, Page, expect
from sizes import only_with_all

from longtail import Longtail

THOUGHTS = "an hour's thoughts"


def behind(page: Page, name: str) -> Locator:
    """The button that opens and closes it."""
    return page.get_by_role("button", name=name, exact=True)


@only_with_all
def test_a_record_s_form_outlives_what_somebody_else_saves_and_what_the_run_does(page: Page, api: Longtail, submit: Submit) -> None:
    run = submit(name="slow", algorithm={"steps": 400})
    until(lambda: api.run(run.id).state, lambda state: state == "running")
    page.goto(f"/run?id={run.id}")
    behind(page, "Edit").click()
    notes = page.get_by_role("textbox", name="Notes")
    notes.fill(THOUGHTS)
    api.change_run(run.id, api.run(run.id).revision, tags=["theirs"])
    api.cancel(run.id)
    expect(behind(page, "Cancel run")).to_have_count(0)  # the whole page is drawn anew
    expect(notes).to_have_value(THOUGHTS)
    behind(page, "Save").click()
    expect(page.get_by_text("somebody has changed this run meanwhile")).to_be_visible()
    expect(notes).to_have_value(THOUGHTS)
    behind(page, "Save").click()
    saved = until(lambda: api.run(run.id), lambda run: run.notes == THOUGHTS)
    assert saved.tags == ["theirs"]


@only_with_all
def test_the_name_of_a_view_is_kept_while_one_looks_at_the_list(page: Page) -> None:
    page.goto("/")
    name = page.get_by_role("textbox", name="Keep what is shown now as")
    behind(page, "Views").click()
    name.fill("the slow ones")
    behind(page, "Views").click()
    expect(name).to_be_hidden()
    behind(page, "Views").click()
    expect(name).to_have_value("the slow ones")
