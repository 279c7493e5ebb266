"""The form: what the API thinks of the input stands at the field, and nothing that was typed is lost."""

import re
from pathlib import Path

import pytest
from page_cases import finished, until
from playwright.sync_api import Page, WebSocketRoute, expect
from sizes import only_with_all
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from engine.config import merged
from longtail import Longtail
from longtail.schemas.runs import Run


def fill(page: Page, label: str, text: str) -> None:
    box = page.get_by_label(label, exact=True)
    box.fill(text)
    box.press("Tab")


def pill(page: Page, name: str) -> None:
    page.get_by_test_id("stButtonGroup").get_by_text(name, exact=True).click()


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=option, exact=True).click()


class SlowNetwork:
    """Between a page that is opened after this and its server. While it ``holds``, what the server draws does not arrive."""

    def __init__(self, page: Page) -> None:
        self.holds = False
        self._page = page
        self._held: list[str | bytes] = []
        page.route_web_socket(re.compile("_stcore/stream"), self._join)

    def drawings(self) -> int:
        """How often the server has drawn the page since it holds."""
        self._page.wait_for_timeout(1)  # Playwright hears only while it is called
        held = [ForwardMsg.FromString(message) for message in self._held if isinstance(message, bytes)]
        return sum(message.WhichOneof("type") == "script_finished" for message in held)

    def deliver(self) -> None:
        self.holds = False
        for message in self._held:
            self._to_page.send(message)

    def _join(self, page: WebSocketRoute) -> None:
        self._to_page, server = page, page.connect_to_server()
        page.on_message(server.send)
        server.on_message(lambda message: self._held.append(message) if self.holds else page.send(message))


def start(page: Page) -> None:
    page.get_by_role("button", name="Start run").click()


def test_the_form_submits_a_run_and_its_plain_baseline(page: Page, api: Longtail, random_model: Path) -> None:
    page.goto("/new")
    fill(page, "Name", "from the form")
    fill(page, "Model", str(random_model))
    fill(page, "Steps", "3")
    fill(page, "Tags", "browser, form")
    page.get_by_text("Also run the plain baseline").click()
    start(page)
    expect(page).to_have_url(re.compile(r"/run\?id=[0-9a-f]{16}"))
    runs = until(lambda: api.runs(q="from the form").items, lambda runs: len(runs) == 2)
    plain, tlt = sorted(runs, key=lambda run: -len(run.name))
    assert (tlt.name, plain.name) == ("from the form", "from the form (plain)")
    assert tlt.tags == plain.tags == ["browser", "form"]
    assert tlt.steps == 3
    assert tlt.config["speculation"]["enabled"]
    assert plain.config == tlt.config | {"name": plain.name, "speculation": tlt.config["speculation"] | {"enabled": False}}
    assert page.url.endswith(tlt.id)
    assert finished(api, tlt).state == finished(api, plain).state == "succeeded"
    expect(page.get_by_text("succeeded", exact=True).first).to_be_visible()


WRONG = (
    ("Name", "name", ""),
    ("Seed", "seed", -1),
    ("Model", "model.path", ""),
    ("Steps", "algorithm.steps", -1),
    ("Prompts a step", "algorithm.prompts_per_step", 0),
    ("Responses for each prompt", "algorithm.group_size", 1),
    ("Learning rate", "algorithm.learning_rate", 2.5),
    ("Speculate up to (requests)", "speculation.threshold", 0),
    ("Margin before it stops", "speculation.hysteresis", 11.5),
    ("Share of hard problems", "task.four_numbers", 1.5),
    ("Workers", "cluster.workers", 5000),
    ("CPU threads a worker", "cluster.threads_per_worker", 0),
    ("Longest response (tokens)", "rollout.max_new_tokens", 0),
    ("Temperature", "rollout.temperature", -0.5),
    ("Min-p", "rollout.min_p", 1.5),
    ("Largest batch", "rollout.max_batch", 0),
)


def test_models_with_a_name_are_offered_and_others_can_be_typed(page: Page, api: Longtail) -> None:
    page.goto("/new")
    fill(page, "Model", "unheard-of")
    expect(page.locator(".st-key-fault-model-path")).to_contain_text("use a name that `longtail models` lists")
    pill(page, "named")
    expect(page.get_by_label("Model", exact=True).first).to_have_value("named")  # for a moment the old field is there, too
    expect(page.locator(".st-key-fault-model-path")).to_have_count(0)
    fill(page, "Tags", "by-name")
    start(page)
    expect(page).to_have_url(re.compile(r"/run\?id="))
    (run,) = api.runs(tag="by-name").items
    assert run.config["model"]["path"] == "named"
    assert finished(api, run).state == "succeeded"


@pytest.mark.parametrize("click", [False, True], ids=["typed", "clicked"])
def test_a_model_that_is_typed_or_clicked_is_not_taken_back_by_names_of_an_older_page(page: Page, click: bool) -> None:
    network = SlowNetwork(page)
    page.goto("/new")
    model, steps = (page.get_by_label(label, exact=True) for label in ("Model", "Steps"))
    expect(model).to_have_value("tiny")
    network.holds = True
    if click:
        pill(page, "named")
        until(network.drawings, lambda count: count == 1)
    fill(page, "Model", "typed")
    until(network.drawings, lambda count: count == 1 + click)
    fill(page, "Steps", "7")
    until(network.drawings, lambda count: count == 2 + click)
    network.deliver()
    fill(page, "Seed", "-1")
    expect(page.locator(".st-key-fault-seed")).to_contain_text("greater than or equal to 0")
    fill(page, "Seed", "1")
    expect(page.locator(".st-key-fault-model-path")).to_contain_text("use a name that `longtail models` lists")
    expect(model).to_have_value("typed")
    expect(steps).to_have_value("7")


def nested(path: str, value: object) -> dict[str, object]:
    for part in reversed(path.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def test_a_wrong_value_is_explained_at_its_field_and_kept(page: Page, api: Longtail) -> None:
    config = api.presets()[0].config
    page.goto("/new")
    for label, path, value in WRONG:
        fill(page, label, str(value))
        config = merged(config, nested(path, value))
    messages = {error.field: error.message for error in api.validate(config).errors}
    assert set(messages) == {path for _, path, _ in WRONG}
    for clicked in (False, True):
        if clicked:
            start(page)
        for label, path, value in WRONG:
            expect(page.locator(f".st-key-fault-{path.replace('.', '-')}")).to_contain_text(messages[path])
            expect(page.get_by_label(label, exact=True)).to_have_value(str(value))
    assert api.runs(where="config.rollout.max_batch=0").items == []


def test_every_setting_is_in_a_section_and_judged_there(page: Page, api: Longtail) -> None:
    page.goto("/new")
    pill(page, "drafter")
    fill(page, "Patience", "0")
    expect(page.locator(".st-key-fault-drafter-spot-trigger-patience")).to_contain_text("greater than or equal to 1")
    pill(page, "main settings")
    expect(page.get_by_role("alert").filter(has_text="drafter.spot.trigger.patience")).to_be_visible()
    pill(page, "drafter")
    fill(page, "Patience", "5")
    pill(page, "algorithm")
    choose(page, "Algorithm", "dapo")
    boxes = page.get_by_label("Clip high", exact=True)  # another takes its place
    until(lambda: boxes.evaluate_all("boxes => boxes.map(box => box.value)"), lambda values: values == ["0.28"])
    changes = page.locator(".st-key-differences")
    for field in ("drafter.spot.trigger.patience", "algorithm.name", "algorithm.clip_high"):
        expect(changes).to_contain_text(field)
    fill(page, "Tags", "x" * 65)
    start(page)
    expect(page.locator(".st-key-fault-tags-0")).to_contain_text("at most 64 characters")
    assert api.runs(tag="x" * 64).items == []


def test_a_run_is_the_start_of_another(page: Page, api: Longtail, pair: tuple[Run, Run]) -> None:
    parent = pair[1]
    page.goto(f"/new?from={parent.id}")
    expect(page.get_by_label("Name", exact=True)).to_have_value(parent.name)
    expect(page.get_by_label("Tags", exact=True)).to_have_value("pair")
    expect(page.locator(".st-key-costs")).to_contain_text(re.compile(r"since .+ took"))  # the newest one like it, be it another test's
    expect(page.locator(".st-key-differences")).to_contain_text("Nothing yet")
    fill(page, "Tags", "offspring")
    fill(page, "Steps", "2")
    expect(page.locator(".st-key-differences")).to_contain_text("30 → 2")
    start(page)
    expect(page).to_have_url(re.compile(r"/run\?id="))
    (child,) = api.runs(tag="offspring").items
    assert (child.parent_id, child.steps) == (parent.id, 2)
    assert child.config == merged(parent.config, nested("algorithm.steps", 2))


@only_with_all
def test_settings_of_speculation_are_explained_and_judged(page: Page, api: Longtail) -> None:
    page.goto("/new")
    choose(page, "Tuner", "beg")
    expect(page.get_by_text("speculation.tuner.epsilon")).to_be_visible()
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
    choose(page, "Task", "math")
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


@only_with_all
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
    text = page.get_by_label("Configuration", exact=True)
    expect(text).to_have_value("name: uploaded\nseed: 7\n")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    page.locator("input[type=file]").set_input_files(binary)
    expect(page.get_by_role("alert")).to_contain_text("binary.yaml is no text in UTF-8")
    expect(text).to_have_value("name: uploaded\nseed: 7\n")


def test_text_that_is_no_yaml_is_explained(page: Page) -> None:
    page.goto("/new")
    page.get_by_role("radio", name="YAML").or_(page.get_by_role("button", name="YAML")).first.click()
    text = page.get_by_label("Configuration", exact=True)
    text.fill("name: [unclosed")
    text.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("not readable as YAML")


@only_with_all
def test_what_is_typed_before_the_page_is_drawn_anew_is_kept(page: Page) -> None:
    """Nothing here waits for what the choice before it brings."""
    page.goto("/new")
    name = page.get_by_label("Name", exact=True)
    choose(page, "Tuner", "beg")
    name.fill("")
    name.press_sequentially("typed meanwhile", delay=40)
    choose(page, "Algorithm", "dapo")
    fill(page, "Steps", "7")
    pill(page, "drafter")
    fill(page, "Patience", "9")
    pill(page, "main settings")
    for field in ("drafter.spot.trigger.patience", "speculation.tuner.name", "algorithm.name"):
        expect(page.locator(".st-key-differences")).to_contain_text(field)
    for label, value in (("Name", "typed meanwhile"), ("Steps", "7")):
        expect(page.get_by_label(label, exact=True)).to_have_value(value)
    choose(page, "Start from a preset, or from a run", "Countdown, 100 steps")
    until(lambda: name.evaluate_all("boxes => boxes.map(box => box.value)"), lambda values: values == ["countdown-100"])
    fill(page, "Name", "after the preset")
    fill(page, "Seed", "11")
    expect(page.locator(".st-key-differences")).not_to_contain_text("drafter.spot.trigger.patience")
    for label, value in (("Name", "after the preset"), ("Steps", "100"), ("Seed", "11")):
        expect(page.get_by_label(label, exact=True)).to_have_value(value)
