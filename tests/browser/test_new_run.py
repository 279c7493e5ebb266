"""The form: what the API thinks of the input stands at the field, and nothing that was typed is lost."""

import re
from pathlib import Path

from conftest import until
from playwright.sync_api import Page, expect

from backend.client import Longtail


def fill(page: Page, label: str, text: str) -> None:
    box = page.get_by_label(label, exact=True)
    box.fill(text)
    box.press("Tab")


def start(page: Page) -> None:
    """While the page is drawn anew, the old button is still there beside the new one."""
    button = page.get_by_role("button", name="Start run")
    expect(button).to_have_count(1)
    button.click()


def test_the_form_submits_a_run_and_its_plain_baseline(page: Page, api: Longtail, random_model: Path) -> None:
    page.goto("/new")
    fill(page, "Name", "from the form")
    fill(page, "Model", str(random_model))
    fill(page, "Steps", "3")
    fill(page, "Tags", "browser, form")
    page.get_by_text("Also run the plain baseline").click()
    start(page)
    expect(page).to_have_url(re.compile(r"/run\?id=[0-9a-f]{16}"))
    plain, tlt = sorted(until(lambda: api.runs(q="from the form").items, lambda runs: len(runs) == 2), key=lambda run: -len(run.name))
    assert (tlt.name, plain.name) == ("from the form", "from the form (plain)")
    assert tlt.tags == plain.tags == ["browser", "form"]
    assert tlt.steps == 3
    assert tlt.config["speculation"]["enabled"]
    assert plain.config == tlt.config | {"name": plain.name, "speculation": tlt.config["speculation"] | {"enabled": False}}
    assert page.url.endswith(tlt.id)


def test_a_wrong_value_is_explained_at_its_field_and_kept(page: Page, api: Longtail) -> None:
    config = api.presets()[0].config
    message = api.validate(config | {"algorithm": config["algorithm"] | {"steps": 0}}).errors[0].message
    page.goto("/new")
    fill(page, "Name", "never accepted")
    fill(page, "Steps", "0")
    expect(page.locator(".st-key-fault-algorithm-steps")).to_contain_text(message)
    start(page)
    expect(page.locator(".st-key-fault-algorithm-steps")).to_contain_text(message)
    expect(page.get_by_label("Name", exact=True)).to_have_value("never accepted")
    expect(page.get_by_label("Steps", exact=True)).to_have_value("0")
    assert api.runs(q="never accepted").items == []


def test_settings_of_speculation_are_explained_and_judged(page: Page, api: Longtail) -> None:
    page.goto("/new")
    page.get_by_label("Tuner", exact=True).click()
    page.get_by_role("option", name="beg").click()
    fill(page, "Min-p", "1")
    expect(page.locator(".st-key-fault-rollout-min_p")).to_contain_text("less than 1")
    fill(page, "Min-p", "0.1")
    expect(page.locator(".st-key-fault-rollout-min_p")).to_have_count(0)
    fill(page, "Name", "by the bandit")
    start(page)
    expect(page).to_have_url(re.compile(r"/run\?id="))
    config = api.runs(q="by the bandit").items[0].config
    assert (config["speculation"]["tuner"]["name"], config["rollout"]["min_p"]) == ("beg", 0.1)


def test_a_fault_between_fields_stands_above_the_form(page: Page) -> None:
    page.goto("/new")
    fill(page, "Workers", "9")
    expect(page.get_by_role("alert").filter(has_text="would have nothing to do")).to_be_visible()


def test_another_task_shows_its_own_fields(page: Page) -> None:
    page.goto("/new")
    expect(page.get_by_label("Share of hard problems", exact=True)).to_be_visible()
    page.get_by_label("Task", exact=True).click()
    page.get_by_role("option", name="math").click()
    fill(page, "Data file", "missing.jsonl")
    expect(page.locator(".st-key-fault-task-path")).to_contain_text("missing.jsonl")
    expect(page.get_by_label("Share of hard problems", exact=True)).to_have_count(0)


def test_yaml_and_form_are_two_views_of_one_draft(page: Page, api: Longtail, random_model: Path) -> None:
    page.goto("/new")
    fill(page, "Name", "carried over")
    page.get_by_role("radio", name="YAML").or_(page.get_by_role("button", name="YAML")).first.click()
    text = page.get_by_label("Configuration", exact=True)
    expect(text).to_have_value(re.compile("name: carried over"))
    text.fill(f"name: written as YAML\nmodel:\n  path: {random_model}\nalgorithm:\n  steps: 2\n  stepps: 3\n")
    text.press("Control+Enter")
    expect(page.get_by_role("alert").filter(has_text="algorithm.stepps")).to_contain_text("unknown key")
    text.fill(f"name: written as YAML\nmodel:\n  path: {random_model}\nalgorithm:\n  steps: 2\n")
    text.press("Control+Enter")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("radio", name="Form").or_(page.get_by_role("button", name="Form")).first.click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("written as YAML")
    expect(page.get_by_label("Steps", exact=True)).to_have_value("2")
    start(page)
    expect(page).to_have_url(re.compile(r"/run\?id="))
    assert api.runs(q="written as YAML").items[0].steps == 2


def test_strategies_are_written_and_judged_as_yaml(page: Page, api: Longtail) -> None:
    page.goto("/new")
    page.get_by_role("radio", name="YAML").or_(page.get_by_role("button", name="YAML")).first.click()
    text = page.get_by_label("Configuration", exact=True)
    begin = "name: own strategies\nrollout: {stop: [done]}\nspeculation:\n  suffix: {enabled: false}\n  strategies:\n  - {depth: 3, "
    text.fill(begin + "verify: 4}")
    text.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("speculation.strategies.0: verify=4 exceeds the 3 tokens")
    text.fill(begin + "verify: 9, top_k: 2}")
    text.press("Control+Enter")
    expect(page.get_by_role("alert")).to_have_count(0)
    start(page)
    expect(page).to_have_url(re.compile(r"/run\?id="))
    config = api.runs(q="own strategies").items[0].config
    assert config["speculation"]["strategies"] == [{"drafter": "eagle", "depth": 3, "top_k": 2, "verify": 9}]
    assert config["rollout"]["stop"] == ["done"]


def test_an_uploaded_file_is_the_configuration(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("name: uploaded\nseed: 7\n", encoding="utf-8")
    page.goto("/new")
    page.get_by_role("radio", name="YAML").or_(page.get_by_role("button", name="YAML")).first.click()
    page.locator("input[type=file]").set_input_files(file)
    expect(page.get_by_label("Configuration", exact=True)).to_have_value("name: uploaded\nseed: 7\n")


def test_text_that_is_no_yaml_is_explained(page: Page) -> None:
    page.goto("/new")
    page.get_by_role("radio", name="YAML").or_(page.get_by_role("button", name="YAML")).first.click()
    text = page.get_by_label("Configuration", exact=True)
    text.fill("name: [unclosed")
    text.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("not readable as YAML")
