"""What a run leaves behind: its samples, log, configuration and files, as a visitor sees them."""

import hashlib
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
import replay_engine
import yaml
from page_cases import Submit, drawn, finished, tab, until
from playwright.sync_api import Locator, Page, expect
from sizes import only_with_all

from dashboard.analysis.sample_groups import sample_groups
from dashboard.text.escaping import visible, without_colors
from longtail import Longtail
from longtail.schemas.runs import Run

Pair = tuple[Run, Run]
FOUND_MS = 3000
"""In which what was typed is searched for: what is found closes an open menu."""


@pytest.fixture(scope="module")
def chatty(api: Longtail, submit: Submit) -> Run:
    return finished(api, submit(name="chatty", algorithm={"steps": 9}))


def open_tab(page: Page, run: Run, name: str) -> None:
    page.goto(f"/run?{urlencode({'id': run.id, 'tab': name})}")
    expect(tab(page, name)).to_be_checked()


def sha256(page: Page, button: Locator, path: Path) -> str:
    """Of what the browser downloads."""
    with page.expect_download() as download:
        button.click()
    download.value.save_as(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lines(page: Page) -> Locator:
    return page.get_by_test_id("stCode").filter(has_text="line ")


def no_markup(page: Page) -> None:
    assert page.locator("[data-testid=stMain] :is(img[src='x'], b:has-text('bold'), strong:has-text('bold'), .katex)").count() == 0


@only_with_all
def test_the_heat_map_shows_speed_or_use_and_the_cost_of_a_step(page: Page, pair: Pair) -> None:
    open_tab(page, pair[1], "Speculation")
    cells = page.locator(".js-plotly-plot .heatmaplayer").locator("xpath=ancestor::*[contains(@class, 'js-plotly-plot')]").first
    texts = "chart => chart.data[0].text.flat().filter(text => text)"
    speeds = until(lambda: drawn(cells, texts), bool)
    assert sum(text.endswith("★") for text in speeds) >= 2
    page.get_by_role("radio", name="pulls").click()
    until(lambda: drawn(cells, texts), lambda shown: shown is not None and shown != speeds)
    page.get_by_text("Measured cost: milliseconds of a decode step").click()
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()


@only_with_all
def test_the_drafter_is_measured_and_taken_away(page: Page, api: Longtail, pair: Pair, tmp_path: Path) -> None:
    (artifact,) = api.artifacts(pair[1].id)
    open_tab(page, pair[1], "Drafter")
    expect(page.get_by_text(re.compile(r"(No session|\d+ of \d+ sessions) found less than 95\s% of the level before"))).to_be_visible()
    page.get_by_role("radio", name="top-3").click()
    expect(page.get_by_text("top-3 (%)")).to_be_visible()
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()
    expect(page.get_by_text(artifact.sha256)).to_be_visible()
    assert sha256(page, page.get_by_role("link", name="Download"), tmp_path / "drafter") == artifact.sha256


def test_samples_show_what_drafted_them_by_colour_and_line(page: Page, api: Longtail, pair: Pair) -> None:
    open_tab(page, pair[1], "Samples")
    first = page.locator("[data-testid=stHtml] pre").first
    newest = sample_groups(api.samples(pair[1].id))[0].items[0]
    expect(first).to_have_text(newest.response)
    seen = {}
    for source, part in (("eagle", ".from-eagle"), ("ngram", ".from-ngram"), ("target", "xpath=.")):
        style = "part => { const s = getComputedStyle(part); return [s.backgroundColor, s.textDecorationLine, s.textDecorationStyle] }"
        seen[source] = tuple(first.locator(part).first.evaluate(style))
    assert len(set(seen.values())) == 3
    assert len({look[1:] for look in seen.values()}) == 3, "without their colours, too"
    expect(
        page.get_by_text(re.compile(r"\d+ tokens, \d+\s% of them drafted: \d+\s% by the learned drafter, \d+\s% by n-grams")).first
    ).to_be_visible()


def test_a_run_is_a_record_that_can_be_edited_and_done_again(page: Page, api: Longtail, pair: Pair, tmp_path: Path) -> None:
    run = pair[1]
    page.goto(f"/run?id={run.id}")
    tab(page, "Training").click()
    training = page.locator(".st-key-read-Training").get_by_role("button", name="How to read this")
    expect(training).to_be_visible()
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_role("textbox", name="Notes").fill("better than **last** week's")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_test_id("stText").get_by_text("better than **last** week's")).to_be_visible()  # the form may still be closing
    expect(training).to_be_visible()  # the tab stays open, although notes above it make Streamlit mount the row anew
    until(lambda: api.run(run.id).notes, lambda notes: notes == "better than **last** week's")
    expect(page).to_have_title(f"{run.name} · Longtail")
    page.get_by_role("button", name="Reproduce").click()
    expect(page.get_by_text(f"longtail submit {run.id}.yaml")).to_be_visible()
    sha256(page, page.get_by_role("button", name="Configuration (YAML)"), tmp_path / "run.yaml")
    assert yaml.safe_load((tmp_path / "run.yaml").read_text()) == run.config


@only_with_all
def test_any_metric_is_found_pinned_and_taken_away(page: Page, api: Longtail, pair: Pair, tmp_path: Path) -> None:
    open_tab(page, pair[1], "Metrics")
    page.get_by_role("textbox", name="Find").fill("^(kl|entropy)$")
    page.get_by_role("textbox", name="Find").press("Enter")
    expect(page.get_by_text(re.compile(r"2 series of \d+"))).to_be_visible()
    page.get_by_role("radio", name="tokens").click()
    expect(page.locator(".js-plotly-plot").first).to_contain_text("generated tokens")
    sha256(page, page.get_by_role("button", name="Download points"), tmp_path / "points.csv")
    lines = (tmp_path / "points.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * pair[1].step
    page.get_by_role("button", name="Pin").first.click()
    until(lambda: api.preferences().get("pinned-metrics", []), bool)
    expect(page.get_by_role("button", name="Unpin")).to_be_visible()
    page.get_by_role("textbox", name="Find").fill("[")
    page.get_by_role("textbox", name="Find").press("Enter")
    expect(page.get_by_text("That is no regular expression")).to_be_visible()


def test_samples_of_a_step_and_in_an_order(page: Page, api: Longtail, chatty: Run) -> None:
    open_tab(page, chatty, "Samples")
    texts = page.locator("[data-testid=stHtml] pre")
    expect(texts).to_have_count(len(api.samples(chatty.id)))
    page.get_by_role("combobox", name="Order").click()
    page.get_by_role("option", name="longest first").click()
    longest = sample_groups(api.samples(chatty.id, longest=True), longest_first=True)[0].items[0]
    expect(texts.first).to_have_text(visible(longest.response))
    page.get_by_role("spinbutton", name="Step").fill("4")
    page.get_by_role("spinbutton", name="Step").press("Enter")
    of_step = sample_groups(api.samples(chatty.id, step=4))[0].items
    expect(texts).to_have_count(len(of_step))
    expect(texts.first).to_have_text(of_step[0].response)


@only_with_all
def test_what_another_run_answered_to_a_prompt_is_found_by_that_run_s_name_or_id(page: Page, pair: Pair) -> None:
    open_tab(page, pair[1], "Samples")
    page.get_by_text("Elsewhere").first.click()
    page.get_by_label("Find a run").fill(pair[0].id)
    page.wait_for_timeout(FOUND_MS)
    page.get_by_role("combobox", name="In", exact=True).click()
    page.get_by_role("option", name=pair[0].name).click()
    expect(page.get_by_text(f"{pair[0].name}, step")).to_be_visible()
    page.get_by_role("link", name="Open that run").click()
    expect(page.get_by_role("heading", name=pair[0].name, exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile(f"id={pair[0].id}"))
    expect(tab(page, "Samples")).to_be_checked()
    expect(page.get_by_text("Elsewhere").first).to_be_visible()
    expect(page.get_by_label("Find a run")).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("heading", name=pair[1].name, exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile(f"id={pair[1].id}"))
    expect(tab(page, "Samples")).to_be_checked()


@only_with_all
def test_hostile_samples_and_lines_are_text(page: Page, chatty: Run) -> None:
    open_tab(page, chatty, "Samples")
    expect(page.locator("[data-testid=stHtml] pre").filter(has_text="onerror")).to_have_text(visible(replay_engine.HOSTILE))
    no_markup(page)
    open_tab(page, chatty, "Logs")
    expect(page.get_by_test_id("stCode")).to_contain_text(without_colors(replay_engine.HOSTILE))
    no_markup(page)


@only_with_all
def test_the_log_is_searched_and_paged(page: Page, chatty: Run) -> None:
    open_tab(page, chatty, "Logs")
    expect(lines(page)).to_contain_text(f"line {replay_engine.LINES - 1} of")
    page.get_by_role("button", name="Older").click()
    expect(lines(page)).to_contain_text("line 100 of")
    expect(lines(page)).not_to_contain_text(f"line {replay_engine.LINES - 1} of")
    page.get_by_role("button", name="Newer").click()
    expect(lines(page)).to_contain_text(f"line {replay_engine.LINES - 1} of")
    page.get_by_role("textbox", name="Search").fill("LINE 17 ")
    page.get_by_role("textbox", name="Search").press("Enter")
    expect(page.get_by_text("1 line, the newest last")).to_be_visible()
    expect(lines(page)).to_contain_text("line 17 of")
    page.get_by_role("button", name="warning").click()
    expect(page.get_by_test_id("stCode")).to_have_text("No line is like that.")


def test_the_whole_log_is_downloaded(page: Page, api: Longtail, chatty: Run, tmp_path: Path) -> None:
    open_tab(page, chatty, "Logs")
    sha256(page, page.get_by_role("button", name="Download"), tmp_path / "log")
    saved = (tmp_path / "log").read_text(encoding="utf-8")
    assert saved.count("\n") == len(saved.splitlines()) > replay_engine.LINES
    assert all(f"line {number} of " in saved for number in range(replay_engine.LINES))
    assert "\x1b" not in saved
    assert len(api.logs(chatty.id)) == saved.count("\n")


@only_with_all
def test_the_configuration_shows_its_differences_first_and_its_surroundings(page: Page, api: Longtail, pair: Pair) -> None:
    open_tab(page, pair[1], "Config")
    fields = page.get_by_role("table").filter(has_text="this run")
    expect(fields).to_contain_text("model.path")
    expect(fields).not_to_contain_text("hysteresis")
    page.get_by_role("combobox", name="Compared with").click()
    page.get_by_role("option", name="Demo: plain").click()
    expect(fields).to_contain_text("speculation.enabled")
    expect(page.get_by_test_id("stCode").first).to_contain_text("hysteresis")
    (attempt,) = api.attempts(pair[1].id)
    assert attempt.environment is not None
    expect(page.get_by_text(f"by worker {attempt.worker_id}")).to_be_visible()
    expect(page.get_by_role("table").filter(has_text="of this attempt")).to_contain_text(attempt.environment.python)
    expect(page.get_by_role("link", name="Clone with changes")).to_have_attribute("href", re.compile(f"from={pair[1].id}"))


@only_with_all
def test_of_a_file_the_newest_version_is_seen_first(page: Page, api: Longtail, pair: Pair, tmp_path: Path) -> None:
    run = pair[0]
    for text in ("first", "second"):
        (tmp_path / "notes.txt").write_text(text)
        api.upload(run.id, tmp_path / "notes.txt")
    first, second = (artifact for artifact in api.artifacts(run.id) if artifact.name == "notes.txt")
    open_tab(page, run, "Files")
    expect(page.get_by_text(second.sha256)).to_be_visible()
    expect(page.get_by_text(first.sha256)).not_to_be_visible()
    page.get_by_text("1 older version of notes.txt").click()
    expect(page.get_by_text(first.sha256)).to_be_visible()
    row = page.get_by_test_id("stHorizontalBlock").filter(has_text=first.sha256).last
    assert sha256(page, row.get_by_role("link", name="Download"), tmp_path / "notes") == first.sha256
