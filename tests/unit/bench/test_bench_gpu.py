"""``make gpu``, rehearsed without a GPU: each part runs to its end, or says what it lacks, and leaves a file."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from sizes import only_with_all

from engine.bench.gpu import __main__ as command
from engine.bench.gpu import process
from engine.bench.gpu.parts import EMULATED, FULL, MINUTES, Part
from engine.bench.report import SECTIONS, Measured, at, page


def read(folder: Path, part: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"gpu_{part}.json").read_text(encoding="utf-8"))
    return found


def test_a_part_leaves_figures_that_the_report_shows(tmp_path: Path) -> None:
    assert process.measure("weight_sync", tmp_path / "gpu_weight_sync.json", tmp_path, emulated=True) == "done"
    found = read(tmp_path, "weight_sync")
    assert found["bytes"] > found["parameters"]
    assert found["provenance"]["settings"] == {"emulate": True}
    assert "weights into the engine" in page([Measured("gpu_weight_sync", found, "")])


def test_a_part_that_lacks_a_package_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.bench.gpu.sglang_decoding.version", lambda _: version("no-such-package"))
    file = tmp_path / "gpu_sglang_decoding.json"
    assert process.measure("sglang_decoding", file, tmp_path, emulated=True) == "there is no package no-such-package"
    assert read(tmp_path, "sglang_decoding")["ended"] == "there is no package no-such-package"


def test_a_part_that_fails_keeps_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(part: Part) -> None:
        part.found(first=1)
        raise RuntimeError("out of luck")

    monkeypatch.setattr("engine.bench.gpu.weight_sync.run", run)
    file = tmp_path / "gpu_weight_sync.json"
    assert process.measure("weight_sync", file, tmp_path, emulated=True) == "RuntimeError: out of luck"
    assert read(tmp_path, "weight_sync")["first"] == 1


def test_time_that_is_spent_ends_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.measure(["weight_sync"], tmp_path, tmp_path, seconds=1, emulated=True) == [1]
    assert capsys.readouterr().out == "weight_sync: no time is left\n"


def test_a_part_that_takes_too_long_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(MINUTES, "weight_sync", 0.01 / command.PATIENCE)
    assert command.measure(["weight_sync"], tmp_path, tmp_path, seconds=600, emulated=True) == [1]
    assert "weight_sync: cut off after 1 s" in capfd.readouterr().out


MISTAKES = {"--out: name a folder": ["--emulate"], "give more than 0": ["--minutes", "0"], "no GPU that PyTorch sees": []}


@pytest.mark.parametrize(("says", "options"), MISTAKES.items())
def test_what_cannot_be_is_told(options: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "gpu", lambda: False)
    with pytest.raises(SystemExit):
        command.main(options)
    assert says in capsys.readouterr().err


def test_every_part_has_a_module_and_a_section_and_all_fit_into_the_time() -> None:
    shown = {section.bench for section in SECTIONS}
    assert {f"gpu_{part}" for part in MINUTES} <= shown
    assert all((Path(command.__file__).parent / f"{part}.py").is_file() for part in MINUTES)
    assert list(FULL.models) == ["0.5B", "1.5B", "7B"]
    assert list(EMULATED.models) == ["tiny"]


@only_with_all
@pytest.mark.slow
def test_the_whole_is_rehearsed_without_a_gpu(tmp_path: Path) -> None:
    """Every figure of a section is in the file of its part, but those that only a GPU, or a longer session, has."""
    command.main(["--emulate", "--out", str(tmp_path), "--minutes", "60"])
    for part in MINUTES:
        found = read(tmp_path, part)
        assert found["ended"] in ("done", "there is no package sglang"), found
        if found["ended"] == "done":
            section = next(section for section in SECTIONS if section.bench == f"gpu_{part}")
            missing = [figure.key for figure in section.figures if not list(at(found, figure.key.split("/")))]
            assert set(missing) <= {"peak_bytes", "accepted_before", "accepted_after"}
