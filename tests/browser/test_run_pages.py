"""The list, the run page and the comparison, as a visitor sees them."""

import hashlib
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from page_cases import Submit, drawn, tab, until
from playwright.sync_api import Locator, Page, expect
from sizes import first, only_with_all

from longtail import Longtail
from longtail.schemas.runs import Run

Pair = tuple[Run, Run]
SETTLE_MS = 5_000
HOSTILE = "<img src=x onerror=alert(1)> **bold** ![i](http://evil.example/x.png) :material/home: :smile: $x^2$ www.evil.example"


def chart(page: Page, title: str) -> Locator:
    frame = page.locator("[data-testid=stVerticalBlock]").filter(has=page.get_by_text(title, exact=True)).last
    return frame.locator(".js-plotly-plot")


def text_of(page: Page) -> str:
    """All text, without the invisible joiners that part shortcodes."""
    return page.locator("[data-testid=stMain]").inner_text().replace("\u2060", "")


def test_the_run_page_answers_the_first_questions(page: Page, pair: Pair) -> None:
    page.goto(f"/run?id={pair[1].id}")
    expect(page.get_by_text("Is it training?")).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile(r"\d\.\d\d× end to end"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"^\d\.\d\d× as fast as plain$"))).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile(r"\d\.\d\d tokens a pass"))).to_be_visible()


CHARTS = {
    "Overview": ("Reward", "Time per step", "Lengths over steps"),
    "Learning": ("Rewards", "Groups", "Length of right and wrong responses", "Throughput", "Entropy", "KL"),
    "Long tail": ("Response lengths", "Longer than", "Lengths over steps", "Idle in rollout"),
    "Timeline": ("Workers",),
    "Speculation": ("Accept length", "Acceptance by position", "Strategies", "Choices", "Regret"),
    "Training": ("Evaluation", "Loss", "KL", "Gradient norm", "Entropy", "Clip share", "Engine and trainer", "Learning rate"),
    "System": ("CPU", "Memory", "GPU", "GPU memory"),
    "Drafter": ("Held-out accuracy", "Dips at target updates"),
}


def test_every_chart_is_drawn(page: Page, pair: Pair) -> None:
    page.goto(f"/run?id={pair[1].id}&{urlencode({'tab': 'Long tail'})}")
    expect(tab(page, "Long tail")).to_be_checked()
    for name, titles in CHARTS.items():
        tab(page, name).click()
        for title in titles:
            plot = chart(page, title)
            expect(plot.locator("svg.main-svg").first).to_be_visible()
            until(lambda plot=plot: drawn(plot, "chart => chart.data.some(trace => (trace.x || []).length > 0)"), bool)  # type: ignore[misc]


def test_a_chart_tells_its_numbers_and_has_a_table_behind_a_button(page: Page, pair: Pair) -> None:
    page.goto(f"/run?id={pair[1].id}")
    told = page.get_by_role("figure", name=re.compile(r"^Chart: mean reward by step\. reward: [\d.]+ at 0, [\d.]+ at 29, between"))
    expect(told).to_be_visible()
    expect(page.get_by_test_id("stDataFrame")).to_have_count(0)
    page.get_by_role("button", name="Table").first.click()
    table = page.get_by_test_id("stDataFrame")
    until(lambda: table.locator("th").all_text_contents(), lambda heads: heads == ["step", "reward"])
    assert table.locator("tbody td").first.text_content() == "0"


def test_the_overview_tells_alarms_and_what_to_do(page: Page, api: Longtail, submit: Submit) -> None:
    run = submit(name="cut short", algorithm={"steps": 4}, rollout={"max_new_tokens": 64})
    until(lambda: api.run(run.id), lambda run: run.finished)
    page.goto(f"/run?id={run.id}")
    expect(page.get_by_text(re.compile(r"truncated, 4 times, last at step 3: \d+ of 64 responses stopped"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"\d\d\s% of the responses are cut at the limit\. Raise rollout\.max_new_tokens"))).to_be_visible()


@only_with_all
@pytest.mark.parametrize(("opened", "title"), first(1, [("Timeline", "Workers"), ("Long tail", "Longer than")]))
def test_any_step_can_be_chosen_and_stays_zoomed_while_the_run_goes_on(
    page: Page, api: Longtail, submit: Submit, opened: str, title: str
) -> None:
    run = submit(name=f"slow, with steps to choose in {opened}", algorithm={"steps": 300})
    until(lambda: api.run(run.id), lambda run: run.step >= 3)
    page.goto(f"/run?id={run.id}&{urlencode({'tab': opened})}")
    plot = chart(page, title)
    choose_step(page, 1)
    until(lambda: drawn(plot, STEPS_DRAWN), lambda found: found == [1])
    zoomed, step = zoom(page, plot), api.run(run.id).step
    until(lambda: api.run(run.id), lambda run: run.step > step + 6)
    assert until(lambda: drawn(plot, "chart => chart.layout.xaxis.range"), bool) == pytest.approx(zoomed)
    api.cancel(run.id)


STEPS_DRAWN = """chart => [...new Set(chart.data.flatMap(
    trace => trace.base ? trace.customdata.map(about => about[0]) : trace.name === 'step 1' ? [1] : []
))]"""
"""The steps that lanes are of, or a curve."""


def choose_step(page: Page, step: int) -> None:
    page.get_by_role("radio", name="a step", exact=True).click()
    page.get_by_label("Step", exact=True).fill(str(step))
    page.get_by_label("Step", exact=True).press("Enter")


@only_with_all
def test_a_step_that_is_not_there_is_explained(page: Page, pair: Pair) -> None:
    page.goto(f"/run?id={pair[1].id}&tab=Timeline")
    choose_step(page, 999)
    expect(page.get_by_text("The run has no such step.")).to_be_visible()


@only_with_all
def test_the_survival_curve_has_a_log_axis(page: Page, pair: Pair) -> None:
    page.goto(f"/run?id={pair[1].id}&{urlencode({'tab': 'Long tail'})}")
    page.get_by_text("log axis").click()
    until(
        lambda: drawn(chart(page, "Longer than"), "chart => chart.layout.yaxis.type"),
        lambda found: found == "log",
    )


@only_with_all
def test_a_plain_run_has_no_drafter_charts(page: Page, pair: Pair) -> None:
    page.goto(f"/run?id={pair[0].id}")
    expect(page.get_by_role("heading", name="Plain baseline")).to_be_visible()
    expect(chart(page, "Reward").locator("svg.main-svg").first).to_be_visible()
    expect(tab(page, "Overview")).to_be_checked()
    for name in ("Speculation", "Drafter"):
        expect(tab(page, name)).to_have_count(0)


def test_a_running_run_grows_without_a_reload(page: Page, api: Longtail, submit: Submit) -> None:
    run = submit(name="slow and live", algorithm={"steps": 300})
    until(lambda: api.run(run.id), lambda run: run.step >= 4)
    page.goto(f"/run?id={run.id}")
    plot = chart(page, "Time per step")
    before = until(lambda: points(plot), lambda count: count > 0)
    until(lambda: points(plot), lambda count: count > before + 2)


@only_with_all
def test_a_page_that_holds_still_keeps_its_data_and_zoom(page: Page, api: Longtail, submit: Submit) -> None:
    run = submit(name="slow and held", algorithm={"steps": 300})
    until(lambda: api.run(run.id), lambda run: run.step >= 4)
    page.goto(f"/run?id={run.id}")
    plot = chart(page, "Time per step")
    expect(plot.locator("svg.main-svg").first).to_be_visible()
    page.get_by_text("Live", exact=True).click()
    page.wait_for_timeout(SETTLE_MS)
    held, zoomed = points(plot), zoom(page, plot)
    step = api.run(run.id).step
    until(lambda: api.run(run.id), lambda run: run.step > step + 8)
    assert points(plot) == held
    assert until(lambda: drawn(plot, "chart => chart.layout.xaxis.range"), bool) == pytest.approx(zoomed)
    page.get_by_text("Live", exact=True).click()
    until(lambda: points(plot), lambda count: count > held)


def points(plot: Locator) -> int:
    """Bars of the newest drawing: while it is drawn anew, a chart is there twice."""
    return int(plot.evaluate_all("charts => Math.max(0, ...charts.map(chart => chart.data ? chart.data[0].x.length : 0))"))


def zoom(page: Page, plot: Locator) -> Any:
    """Drags a box over the left half of the chart; its new range on the x axis."""
    area = plot.locator(".nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.1 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], middle, steps=8)
    page.mouse.up()
    return until(
        lambda: drawn(plot, "chart => chart.layout.xaxis.autorange ? null : chart.layout.xaxis.range"),
        lambda found: found is not None,
    )


def test_cancelling_asks_first(page: Page, api: Longtail, submit: Submit) -> None:
    run = submit(name="stuck until cancelled")
    until(lambda: api.run(run.id), lambda run: run.state == "running")
    page.goto(f"/run?id={run.id}")
    page.get_by_role("button", name="Cancel run").click()
    expect(page.get_by_role("dialog")).to_contain_text("go on from its last checkpoint")
    assert not api.run(run.id).cancel_requested
    page.get_by_role("button", name="Cancel the run").click()
    until(lambda: api.run(run.id), lambda run: run.state == "cancelled")
    expect(page.get_by_text("cancelled", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)


@only_with_all
def test_a_run_is_paused_resumed_and_cloned_by_buttons(page: Page, api: Longtail, submit: Submit) -> None:
    run = submit(name="slow, to be paused", algorithm={"steps": 300})
    until(lambda: api.run(run.id), lambda run: run.step > 0)
    page.goto(f"/run?id={run.id}")
    page.get_by_role("button", name="Pause").click()
    until(lambda: api.run(run.id), lambda run: run.state == "paused")
    page.get_by_role("button", name="Resume").click()
    until(lambda: api.run(run.id), lambda run: run.state == "running")
    page.get_by_role("link", name="Clone", exact=True).click()
    expect(page).to_have_url(re.compile(f"/new.*from={run.id}"))
    expect(page.get_by_label("Name", exact=True)).to_have_value("slow, to be paused")
    api.cancel(run.id)
    until(lambda: api.run(run.id), lambda run: run.finished)


def test_a_failed_run_says_why_at_the_top(page: Page, api: Longtail, submit: Submit) -> None:
    run = submit(name="broken data")
    until(lambda: api.run(run.id), lambda run: run.finished)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"/run?id={run.id}")
    expect(page.get_by_text("This run failed")).to_be_visible()
    expect(page.get_by_text("line 7 is not JSON").first).to_be_visible()
    expect(page.get_by_text("The run failed at step 6 of 30 (data): prompts.jsonl")).to_be_visible()
    expect(page.get_by_text("nothing that stands out")).to_have_count(0)
    assert not [url for url in asked if "SyntaxHighlighter" in url], "which takes a fifth of the time of such a page"


@only_with_all
def test_the_address_holds_the_runs_compared(page: Page, pair: Pair) -> None:
    page.goto(f"/compare?runs={pair[0].id},{pair[1].id}")
    for _ in range(2):
        expect(page.get_by_text("End-to-end speed-up")).to_be_visible()
        expect(page.get_by_role("cell", name=re.compile(r"speculation\.enabled"))).to_be_visible()
        for title in ("Mean reward", "Time per phase", "Response lengths"):
            expect(chart(page, title).locator("svg.main-svg").first).to_be_visible()
        page.reload()


@only_with_all
def test_the_compared_numbers_are_the_api_s(page: Page, api: Longtail, pair: Pair) -> None:
    other = api.compare(pair[0].id, [pair[1].id]).items[1]
    page.goto(f"/compare?runs={pair[0].id},{pair[1].id}")
    expect(page.get_by_role("table").first).to_contain_text(f"{other.e2e_speedup:.2f}×")
    expect(page.get_by_role("table").first).to_contain_text(f"{other.rollout_speedup:.2f}×")


def test_the_drafter_is_downloaded_whole(page: Page, api: Longtail, pair: Pair, tmp_path: Path) -> None:
    (artifact,) = api.artifacts(pair[1].id)
    page.goto(f"/run?id={pair[1].id}")
    tab(page, "Files").click()
    link = page.get_by_role("link", name="Download")
    address, _, signed = (link.get_attribute("href") or "").partition("?link=")
    assert address == api.artifact_url(artifact.id).partition("?")[0]
    assert signed
    with page.expect_download() as download:
        link.click()
    file = tmp_path / "drafter"
    download.value.save_as(file)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == artifact.sha256


def test_foreign_text_is_shown_as_text(page: Page, submit: Submit, api: Longtail) -> None:
    run = submit(name=HOSTILE, tags=("<i>tag</i>", ":smile:"))
    until(lambda: api.run(run.id), lambda run: run.finished)
    page.goto(f"/run?id={run.id}")
    expect(page.get_by_text("<i>tag</i>").first).to_be_visible()
    until(lambda: text_of(page), lambda text: HOSTILE in text)
    assert page.locator("[data-testid=stMain] :is(img[src^='http'], a[href*=evil], b:has-text('bold'), .katex)").count() == 0
    tab(page, "Samples").click()
    expect(page.get_by_text("<b>ok</b>").first).to_be_visible()


def test_an_unknown_run_is_explained(page: Page) -> None:
    page.goto("/run?id=0123456789abcdef")
    expect(page.get_by_text("there is no run 0123456789abcdef")).to_be_visible()
