"""Training a drafter as a job: the form, and the page of the run while it trains and when it is done."""

import re
from pathlib import Path

from page_cases import Submit, drawn, finished, tab, until
from playwright.sync_api import Page, expect

from backend.stack.local_stack import Stack
from longtail import Longtail

DRAFTER = {"path": None, "recipe": "eagle3", "pretrain_minutes": 10}
POINTS = "chart => chart.data[0].x.length"


def test_a_drafter_is_trained_from_the_form_to_the_download(page: Page, api: Longtail, stack: Stack, random_model: Path) -> None:
    page.goto("/new?from=drafter")
    expect(page.get_by_label("Train the drafter first (minutes)", exact=True)).to_have_value("20")
    expect(page.get_by_label("Prompts a step", exact=True)).to_have_count(0)
    for label, text in (("Name", "held drafter"), ("Model", str(random_model)), ("Train the drafter first (minutes)", "10")):
        box = page.get_by_label(label, exact=True)
        box.fill(text)
        box.press("Tab")
    expect(page.locator(".st-key-costs")).to_contain_text(
        "about 10 min 0 s to train the drafter, or twice as long as its first responses take"
    )
    page.get_by_role("button", name="Start run").click()
    expect(page).to_have_url(re.compile(r"/run\?id=[0-9a-f]{16}"))
    (run,) = api.runs(q="held drafter").items
    assert (run.steps, run.config["drafter"]["pretrain_minutes"], run.config["drafter"]["recipe"]) == (0, 10, "hass")
    expect(tab(page, "Pretraining")).to_be_checked()
    expect(page.get_by_text(re.compile(r"drafter: round \d+ · .* left"))).to_be_visible()
    plot = page.locator(".st-key-pretrained-length .js-plotly-plot")
    seen = until(lambda: drawn(plot, POINTS), bool)
    (stack.settings.run_folder(run.id) / "go").touch()
    until(lambda: drawn(plot, POINTS), lambda points: points is not None and points > seen)
    assert finished(api, run).state == "succeeded"
    expect(page.get_by_role("heading", name="Trained")).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile(r"\d\.\d\d tokens a pass"))).to_be_visible()
    expect(page.get_by_role("link", name="Download")).to_be_visible()


def test_a_run_with_steps_trains_its_drafter_before_them(page: Page, api: Longtail, submit: Submit) -> None:
    run = submit(name="slow, stuck", algorithm={"steps": 12}, drafter=DRAFTER)
    page.goto(f"/run?id={run.id}")
    expect(page.get_by_text(re.compile(r"drafter: round 6 · .* left, then 12 steps"))).to_be_visible()
    expect(page.get_by_text("How far is the drafter?")).to_be_visible()
    api.cancel(run.id)
    expect(page.get_by_role("heading", name="Broke off at 15 %")).to_be_visible()
