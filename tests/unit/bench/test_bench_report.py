"""The page of figures says what the files of results say, and the files say where their figures come from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backend.bench import __main__ as platform
from engine.bench import __main__ as command
from engine.bench.gpu.parts import MINUTES
from engine.bench.provenance import ROOT, provenance, save
from engine.bench.report import (
    DRAWN,
    FOLDERS,
    README,
    SECTIONS,
    Figure,
    FiguresSection,
    Measured,
    at,
    page,
    pictures,
    results,
    section_text,
    shown,
    wrapped,
)
from engine.errors import DataError

IN_PART = {"e2e", "tuner", "recipes", "tail", *(f"gpu_{part}" for part in MINUTES)}
"""Of these there are no results yet, or transcribed ones that lack some figures."""
FIGURES = [(section, figure) for section in SECTIONS for figure in section.figures]


def measured(result: dict[str, Any], **origin: str) -> Measured:
    return Measured("packing", result | {"provenance": {"machine": "a machine", "commit": "abc1234", "date": "2026-11-23"} | origin}, "")


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")][2:]


def test_the_page_and_its_pictures_are_those_of_the_files() -> None:
    found = results()
    assert README.read_text(encoding="utf-8") == page(found), "longtail bench report writes it anew"
    drawn = pictures(found)
    assert drawn[README.with_name("timelines.svg")]
    assert {path for path in map(README.with_name, DRAWN) if path.exists()} == set(drawn)
    assert [path.name for path, content in drawn.items() if path.read_text(encoding="utf-8") != content] == []


@pytest.mark.parametrize(
    ("text", "word"), [('{"seconds": 1, "prov', "not readable as JSON"), ("[]", "no provenance"), ('{"seconds": 1}', "no provenance")]
)
def test_a_file_that_is_no_whole_result_is_named(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / FOLDERS[0]).mkdir(parents=True)
    (tmp_path / FOLDERS[0] / "spot.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=rf"spot\.json: .*{word}"):
        results(tmp_path)


@pytest.mark.parametrize("main", [command.main, platform.main])
def test_a_folder_is_no_file_for_a_result(main: Callable[[list[str]], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be found out when all is measured, and that lost."""
    name = "device" if main is command.main else "pages"
    with pytest.raises(SystemExit):
        main([name, "--quick", "--json", str(tmp_path)])
    assert f"--json: {tmp_path} is a folder" in capsys.readouterr().err


def test_a_picture_stands_in_its_section_and_only_there() -> None:
    assert {section.picture for section in SECTIONS} <= {"", *DRAWN}
    section = FiguresSection(bench="packing", title="Packed", about="Rows.", figures=[Figure(label="speed", key="speedup")])
    found = [measured({"speedup": 2})]
    assert "![" not in section_text(section, found)
    assert "\n![Packed](drift.svg)\n" in section_text(section.model_copy(update={"picture": "drift.svg"}), found)


@pytest.mark.parametrize("path", sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.json")), ids=lambda path: path.stem)
def test_a_result_tells_where_it_comes_from(path: Path) -> None:
    origin = json.loads(path.read_text(encoding="utf-8"))["provenance"]
    assert set(origin) <= {"machine", "load", "commit", "date", "settings", "source", "note"}
    assert "source" in origin or {"machine", "commit", "date", "settings"} <= set(origin)


def test_every_result_is_on_the_page() -> None:
    found = results()
    for one in found:
        alone = page([one])
        assert rows(alone), f"{one.name}.json has no figure on the page"


@pytest.mark.parametrize(("section", "figure"), FIGURES, ids=lambda each: each.bench if isinstance(each, FiguresSection) else each.key)
def test_a_figure_is_written_by_its_form(section: FiguresSection, figure: Figure) -> None:
    values = [value for one in results() if one.bench == section.bench for _, value in at(one.result, figure.key.split("/"))]
    assert values or section.bench in IN_PART, "nothing of a result has this key"
    assert all("{" not in shown(value, figure.form) for value in values)


def test_a_row_has_value_range_machine_commit_and_date() -> None:
    found = measured({"packed_samples_s": 487.4, "spread": {"packed": [470, 500.2]}})
    assert rows(page([found])) == [["packed rows", "487/s", "470/s to 500/s", "a machine", "abc1234", "2026-11-23"]]


def test_what_is_not_known_is_a_dash() -> None:
    found = Measured("packing", {"speedup": 1.934, "provenance": {"source": "a page"}}, "¹")
    text = page([found])
    assert rows(text) == [["packed against padded", "1.93x", "", "–", "– ¹", "–"]]
    assert text.endswith("¹ a page.\n")


def test_a_list_of_values_names_what_they_belong_to() -> None:
    batches = {"1": {"plain_tok_s": 53.2}, "64": {"plain_tok_s": 1417.0}}
    found = Measured("rollout", measured({"batches": batches}).result, "")
    assert rows(page([found]))[0][:2] == ["plain, tokens per second (1, 64)", "53, 1417"]


def test_names_of_a_list_are_those_of_its_items() -> None:
    laws = [{"name": "one", "p_value": 0.5}, {"name": "two"}]
    assert dict(at({"laws": laws}, ["laws", "*", "p_value"])) == {"one": 0.5}


def test_a_result_that_no_section_shows_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / FOLDERS[0]
    folder.mkdir(parents=True)
    save(folder / "unheard.json", {"value": 1}, {})
    with pytest.raises(DataError, match="unheard"):
        results(tmp_path)


def test_a_saved_result_has_its_provenance_beside_its_keys(tmp_path: Path) -> None:
    save(tmp_path / "spot.json", {"harvest": 0.5}, {"quick": True, "model": None})
    written = json.loads((tmp_path / "spot.json").read_text(encoding="utf-8"))
    assert written["harvest"] == 0.5
    assert written["provenance"]["settings"] == {"quick": True}
    assert "cores" in written["provenance"]["machine"]


def test_the_date_is_a_day() -> None:
    assert len(provenance({})["date"].split("-")) == 3


def test_how_a_figure_is_made_says_which_option_is_needed() -> None:
    made = {section.command for section in SECTIONS if section.bench in command.OF_DATA}
    assert made == {f"longtail bench {bench} --data train.jsonl" for bench in command.OF_DATA}


@pytest.mark.parametrize("bench", sorted([*command.BENCHES, *command.OF_DATA, *command.OF_DRAFTER, *command.OF_RUNS]))
def test_every_benchmark_of_the_engine_has_a_section(bench: str) -> None:
    assert bench in {section.bench for section in SECTIONS}


def test_lines_are_no_wider_than_asked() -> None:
    assert wrapped("a bb ccc", width=5) == "a bb\nccc"
