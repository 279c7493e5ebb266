"""What the documents say is there: links, pictures, commands, settings, files; and the README stays short."""

import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
import yaml
from asked_packages import ROOT
from pydantic import BaseModel
from test_architecture import FOLDERS, tracked
from typer.core import TyperGroup

from backend.bench import __main__ as platform_bench
from backend.cli import app
from backend.settings import Settings
from engine.bench import __main__ as engine_bench
from engine.config import RunConfig

DOCUMENTS = tracked("*.md")
README = ROOT / "README.md"
FIRST_SCREEN = 30
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMIT = re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b")
OF_ENGINE = {*engine_bench.BENCHES, *engine_bench.OF_DATA, *engine_bench.OF_DRAFTER, *engine_bench.OF_RUNS}
BENCHES = {*OF_ENGINE, *platform_bench.BENCHES, "report", "NAME"}
each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def text(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def prose(document: Path) -> str:
    return FENCE.sub("", text(document))


def spans(document: Path) -> list[str]:
    """What stands in backquotes, also over the end of a line."""
    return SPAN.findall(prose(document).replace("\n", " "))


def code(document: Path) -> Iterator[str]:
    """Lines of code and what stands in backquotes."""
    yield from spans(document)
    for _, block in FENCE.findall(text(document)):
        yield from (line.split(" # ")[0].strip() for line in block.splitlines())


def anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short() -> None:
    assert len(text(README).splitlines()) <= 120
    assert len(text(README).split()) <= 1_200


def test_its_first_screen_has_what_a_visitor_wants() -> None:
    first = text(README).splitlines()[:FIRST_SCREEN]
    shown = "\n".join(first)
    assert "make demo" in shown
    assert "make test" in shown
    assert any(line.startswith("![") for line in first)
    assert {line[:3] for line in first} >= {"1. ", "2. ", "3. "}


def test_its_numbers_are_those_measured() -> None:
    results = [ROOT / "engine/bench/results" / name for name in ("e2e-small-epyc.json", "e2e-small.json")]
    newer, older = (json.loads(file.read_text(encoding="utf-8"))["small"]["arms"]["tlt"] for file in results)
    first = " ".join(text(README).splitlines()[:FIRST_SCREEN])
    assert f"**{newer['e2e']:.2f} times faster**" in first
    assert f"({newer['e2e_min']:.2f} to {newer['e2e_max']:.2f})" in first
    assert f"{older['e2e']:.2f} times ({older['e2e_min']:.2f} to {older['e2e_max']:.2f})" in first


def test_its_picture_says_what_was_recorded() -> None:
    found = json.loads((ROOT / "engine/bench/results/timelines.json").read_text(encoding="utf-8"))
    assert f"take {found['plain']['seconds']:.1f} s with plain decoding, and {found['tlt']['seconds']:.1f} s with" in text(README)


@each_document
def test_lines_are_no_wider_than_a_screen(document: Path) -> None:
    assert [line for line in text(document).splitlines() if len(line) > 120 and not line.startswith("|")] == []


@each_document
def test_links_lead_somewhere(document: Path) -> None:
    for link in LINK.findall(prose(document)):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target in {*tracked(), document}, f"{link}: no such file"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


@each_document
def test_prose_names_no_commit(document: Path) -> None:
    lines = [line for line in prose(document).splitlines() if not line.startswith(("|", *"¹²³"))]
    assert COMMIT.findall("\n".join(lines)) == []


@each_document
def test_commands_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z -]*):", text(ROOT / "Makefile"), re.MULTILINE)[0].split())
    for line in code(document):
        words = line.removeprefix(".venv/bin/").split()
        if words[:1] == ["longtail"] and len(words) > 1 and re.fullmatch("[a-z][a-z-]+", words[1]):
            assert exists(typer.main.get_command(app), words[1:]), f"there is no command {line}"
        if words[:1] == ["make"] and len(words) > 1:
            assert words[1] in targets, f"there is no target {line}"
        for module in re.findall(r"python -m ([\w.]+)", line):
            assert find_spec(module) is not None, f"there is no module {module}"


def exists(command: Any, words: list[str]) -> bool:
    """The command, with its options where it reads them itself."""
    if isinstance(command, TyperGroup) and not words:
        return command.invoke_without_command
    if isinstance(command, TyperGroup):
        return words[0] in command.commands and exists(command.commands[words[0]], words[1:])
    if command.name == "bench":
        return words[0] in BENCHES
    options = {name for parameter in command.params for name in parameter.opts}
    passes_on = bool(command.context_settings.get("ignore_unknown_options"))
    return passes_on or {word for word in words if word.startswith("--")} <= options


@each_document
def test_runs_in_yaml_are_valid(document: Path) -> None:
    for language, block in FENCE.findall(text(document)):
        if language == "yaml":
            RunConfig.model_validate(yaml.safe_load(block))


@each_document
def test_settings_named_in_a_sentence_exist(document: Path) -> None:
    for span in spans(document):
        if re.match(rf"({'|'.join(RunConfig.model_fields)}): ", span):
            RunConfig.model_validate(smallest(span) | yaml.safe_load(f"{{{span}}}"))
        elif span.split(".")[0] in RunConfig.model_fields and re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", span):
            assert known(RunConfig, span.split(".")), f"there is no setting {span}"


def smallest(span: str) -> dict[str, Any]:
    """What a snippet needs beside it to be a whole run."""
    workers = re.search(r"workers: (\d+)", span)
    return {"algorithm": {"prompts_per_step": int(workers[1])}} if workers else {}


def known(model: Any, path: list[str]) -> bool:
    """Whether the field is there, in one of the models where there are several."""
    if not path:
        return True
    if isinstance(model, type) and issubclass(model, BaseModel):
        field = model.model_fields.get(path[0])
        return field is not None and known(field.annotation, path[1:])
    return any(known(member, path) for member in get_args(model))


@each_document
def test_variables_are_read_by_something(document: Path) -> None:
    ours = {f"LONGTAIL_{name.upper()}" for name in Settings.model_fields}
    others = [path for pattern in ("*.py", ".ci/*") for path in tracked(pattern) if path.name != Path(__file__).name]
    read = ours | {name for path in others for name in re.findall(r"LONGTAIL_[A-Z_]+", text(path))}
    assert set(re.findall(r"LONGTAIL_[A-Z_]+", text(document))) <= read


@each_document
def test_files_named_are_there(document: Path) -> None:
    written = [*spans(document), *(word.partition("::")[0] for _, code in FENCE.findall(text(document)) for word in code.split())]
    named = {span for span in written if re.fullmatch(rf"({'|'.join(map(re.escape, FOLDERS))})/[\w./-]*", span)}
    assert {name for name in named if not (ROOT / name).exists()} == set()
