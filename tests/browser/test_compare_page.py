"""Runs side by side: what the address holds, and what one takes away."""

import csv
import io
import re
from pathlib import Path

from page_cases import drawn, until
from page_faults import faults_for_screen_readers
from playwright.sync_api import Browser, Download, Page, expect
from sizes import only_with_all
from test_run_pages import Pair, chart

from longtail import Longtail

CHOICE = "metric=tokens_per_second&metric=accept_length&over=time&smoothing=1&logy=true&differences=false&lengths=by+length"


def opened(page: Page, pair: Pair, choice: str = "") -> None:
    page.goto(f"/compare?runs={pair[0].id},{pair[1].id}&{choice}")
    expect(page.get_by_text("End-to-end speed-up", exact=True)).to_be_visible()


def taken(page: Page, name: str) -> Download:
    """By the menu that is open."""
    with page.expect_download() as download:
        page.get_by_role("button", name=name).click()
    return download.value


AXES = """charts => charts.filter(chart => chart.layout?.xaxis?.title).map(
    chart => [chart.layout.xaxis.title.text, chart.layout.xaxis.type, chart.layout.yaxis.type, chart.data.length]
)"""


@only_with_all
def test_the_address_holds_the_whole_choice(page: Page, pair: Pair) -> None:
    opened(page, pair, CHOICE)
    page.get_by_text("Log x", exact=True).click()
    expect(page).to_have_url(re.compile("logx=true"))
    plot = chart(page, "Tokens per second")
    for _ in range(2):
        expect(plot.locator("svg.main-svg").first).to_be_visible()
        axes = until(lambda: plot.evaluate_all(AXES), lambda found: [each[1:] for each in found] == [["log", "log", 2]])
        assert re.fullmatch(r"training time \((seconds|minutes)\)", axes[0][0])
        expect(chart(page, "Response lengths").locator(".ytitle")).to_contain_text("share of responses")
        expect(page.get_by_role("cell", name=re.compile("★ speculation.enabled"))).to_be_visible()
        expect(page.get_by_text("Mean reward", exact=True)).to_have_count(0)
        page.reload()


@only_with_all
def test_runs_that_are_not_there_are_left_out(page: Page, pair: Pair) -> None:
    page.goto(f"/compare?runs=nonsense,{pair[0].id},0123456789abcdef,..%2F..%2Fworkers,{pair[1].id},{pair[0].id}")
    expect(page.get_by_role("alert")).to_contain_text("no such run in your sight: nonsense, 0123456789abcdef")
    expect(page.get_by_text("End-to-end speed-up", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile(f"runs={pair[0].id}(,|%2C){pair[1].id}$"))


def test_differences_come_first_and_a_report_opens_without_a_network(page: Page, browser: Browser, pair: Pair, tmp_path: Path) -> None:
    opened(page, pair)
    expect(page.get_by_role("cell", name=re.compile(r"speculation\.enabled"))).to_be_visible()
    expect(page.get_by_role("cell", name="algorithm.name")).to_have_count(0)
    expect(page.get_by_text("nobody can tell a difference from luck")).to_be_visible()
    for title in ("Mean reward", "Time per phase", "What a faster rollout brings"):
        expect(chart(page, title).locator("svg.main-svg").first).to_be_visible()
    until(lambda: drawn(chart(page, "What a faster rollout brings"), "chart => chart.data.length"), lambda count: count == 2)
    page.get_by_role("button", name="Export").click()
    file = tmp_path / "report.html"
    taken(page, "Report (HTML)").save_as(file)
    figures = taken(page, "Figures (CSV)").path().read_text(encoding="utf-8")
    assert [row["id"] for row in csv.DictReader(io.StringIO(figures))] == [run.id for run in pair]
    curves = taken(page, "Curves (CSV)").path().read_text(encoding="utf-8")
    assert sum(row["key"] == "reward_mean" for row in csv.DictReader(io.StringIO(curves))) == sum(run.steps for run in pair)
    context = browser.new_context()
    asked: list[str] = []
    faults: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    report = context.new_page()
    report.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    report.on("pageerror", lambda error: faults.append(str(error)))
    report.goto(file.as_uri())
    expect(report.get_by_role("heading", name="Side by side")).to_be_visible()
    until(report.locator(".js-plotly-plot:has(svg.main-svg)").count, lambda drawn: drawn >= 6)
    assert ([url for url in asked if not url.startswith(("file:", "data:", "blob:"))], faults) == ([], [])
    context.close()


@only_with_all
def test_words_without_a_space_are_broken_in_tables(page: Page, api: Longtail) -> None:
    runs = []
    for sign in "xy":
        with api.track(200 * sign, {200 * sign: 200 * sign}, steps=1) as tracked:
            tracked.log(0, {"loss": 1.0})
        runs.append(tracked.run.id)
    page.goto(f"/compare?runs={','.join(runs)}&differences=false")
    expect(page.get_by_role("cell", name=200 * "y", exact=True)).to_be_visible()
    for width in (800, 1440):
        page.set_viewport_size({"width": width, "height": 1000})
        assert [fault for fault in faults_for_screen_readers(page) if fault.startswith("scrollable-region")] == []
