"""The planner's page: plan a run that is over, compare it with what was measured, and submit what was planned."""

import re
from functools import partial

from page_cases import drawn, finished, until
from playwright.sync_api import Page, expect
from test_run_pages import chart

from longtail import Longtail
from longtail.schemas.runs import Run


def has_busy(lanes: list[str] | None) -> bool:
    return "BUSY" in (lanes or ())


def test_a_finished_run_is_planned_compared_and_submitted(page: Page, api: Longtail, pair: tuple[Run, Run]) -> None:
    run = finished(api, pair[1])
    page.goto(f"/run?id={run.id}")
    page.get_by_role("link", name="Plan this run").click()
    expect(page.get_by_role("heading", name="Planner")).to_be_visible()
    expect(page.get_by_label("Plan a preset, or a run")).to_have_value(re.compile(run.id[:6]))
    page.get_by_label("GPUs", exact=True).click()
    page.get_by_role("option", name="cpu", exact=True).click()
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.get_by_text("Where the seconds of a step go")).to_be_visible()
    expect(page.get_by_text(re.compile("recorded steps took .*; the plan, which was fitted to them, gives them"))).to_be_visible()
    for timeline in ("Simulated", "Measured"):
        until(partial(drawn, chart(page, timeline), "chart => chart.data.map(one => one.name)"), has_busy)
    before = {each.id for each in api.runs(limit=200).items}
    page.get_by_role("button", name="Submit this plan").click()
    page.wait_for_url(re.compile(r"/run\?"))
    new = [each for each in api.runs(limit=200).items if each.id not in before]
    assert [one.name for one in new] == [run.name]
    assert new[0].config["algorithm"] == run.config["algorithm"]


def test_what_cannot_be_planned_is_told(page: Page) -> None:
    page.goto("/planner")
    model = page.get_by_label("Model", exact=True)
    model.fill("70B")
    page.get_by_label("GPUs", exact=True).click()
    page.get_by_role("option", name="3090", exact=True).click()
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.get_by_text("has 24 GB a GPU")).to_be_visible()
