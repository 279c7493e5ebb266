"""``longtail models``, and runs that name one."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from bare_model import make_bare_model
from typer.testing import CliRunner

from backend import cli
from longtail import Longtail

PIP = """
import os, pathlib, signal, sys, tempfile, time
pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()}\\n{tempfile.mkdtemp()}")
os.kill(os.getppid(), signal.SIGTERM)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def models(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, ["models", *arguments])
    return result.exit_code, result.stdout, result.stderr


def names(out: str) -> list[str]:
    return [each["name"] for each in json.loads(out)]


def test_a_path_that_can_be_none_is_told_in_a_line() -> None:
    assert models("add", "x" * 300) == (2, "", f"longtail: {'x' * 300}: File name too long\n")


def test_models_are_added_listed_and_removed(tmp_path: Path) -> None:
    folder = make_bare_model(tmp_path / "mine")
    code, out, _ = models("add", str(folder))
    assert (code, "model: {path: mine}" in out) == (0, True)
    for listing in ((), ("list",)):
        code, out, _ = models(*listing)
        assert (code, [line.split()[0] for line in out.splitlines()[1:] if line[1] != " "]) == (0, ["tiny", "small", "mine"])
        assert str(folder) in "".join(out.split())
        assert names(models(*listing, "--json")[1]) == ["tiny", "small", "mine"]
    code, _, err = models("add", str(folder))
    assert (code, err.strip().count("\n"), "there is a model mine already" in err) == (2, 0, True)
    (folder / "config.json").unlink()
    assert "mine cannot be used:" in models()[1]
    assert models("remove", "mine")[0] == 0
    assert names(models("--json")[1]) == ["tiny", "small"]
    assert folder.is_dir()
    for wrong in (("remove", "mine"), ("remove", "tiny"), ("get", "gpt9"), ("add", str(tmp_path / "nothing"))):
        code, _, err = models(*wrong)
        assert (code, err.startswith("longtail: "), "Traceback" in err) == (2, True, False)


def test_a_submitted_name_stays_one_and_a_folder_is_anchored(
    client: Longtail, tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server and shell have one LONGTAIL_HOME here."""
    monkeypatch.chdir(tmp_path)
    models("add", "model", "--name", "mine")
    make_bare_model(Path("mine"))
    found = []
    for path in ("mine", "./mine", "unheard-of"):
        Path("run.yaml").write_text(yaml.safe_dump(config | {"model": {"path": path}}))
        result = CliRunner().invoke(cli.app, ["submit", "run.yaml"])
        found.append(client.run(result.stdout.strip()).config["model"]["path"] if result.exit_code == 0 else result.stderr)
    assert found[:2] == ["mine", str(tmp_path / "mine")]
    assert "model.path: unheard-of: no such folder; use a built-in model (tiny, small), a name that `longtail models` lists" in found[2]
    assert {model.name: (model.family, model.parameters, model.fault) for model in client.models()} == {
        "tiny": ("qwen2", 4_325_504, None),
        "small": (None, None, None),
        "mine": ("qwen2", 8, None),
    }
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    assert "which is gone" in (client.models()[-1].fault or "")
    assert "which is gone" in client.validate(config | {"model": {"path": "mine"}}).errors[0].message


def test_a_tokenizer_that_cannot_be_read_is_told_when_the_model_is_added(tmp_path: Path) -> None:
    folder = make_bare_model(tmp_path / "mine")
    for content, reason in (("{", "not readable as JSON"), ("{}", "no tokenizer in it")):
        (folder / "tokenizer.json").write_text(content)
        code, _, err = models("add", str(folder))
        assert (code, reason in err) == (2, True)
    assert names(models("--json")[1]) == ["tiny", "small"]


@pytest.mark.usefixtures("kept_signals")
def test_a_download_that_is_told_to_end_leaves_neither_pip_nor_its_files(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.models.download._pip", lambda: [sys.executable, "-c", PIP, str(tmp_path / "pip")])
    monkeypatch.setattr("engine.interruption.ALONE", 0.2)
    code, out, _ = models("get", "smollm2-135m")
    assert (code > 0, "a run takes it" in out) == (True, False)
    pid, folder = (tmp_path / "pip").read_text().splitlines()
    assert not psutil.pid_exists(int(pid))
    assert not Path(folder).exists()
    assert list((home / "models").iterdir()) == []


@pytest.mark.usefixtures("kept_signals")
def test_a_model_that_is_being_made_when_that_is_told_to_end_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpack(_: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "config.json").touch()
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("engine.models.gguf_folder.unpack", unpack)
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    code, out, _ = models("add", str(tmp_path / "mine.gguf"))
    assert (code > 0, "making a model folder of it" in out, "a run takes it" in out) == (True, True, False)
    assert list((home / "models").iterdir()) == []
