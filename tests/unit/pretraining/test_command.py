"""``longtail drafter train`` without its training."""

import errno
import fcntl
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint import storage
from engine.config import RunConfig
from engine.drafter.__main__ import main
from engine.events import DrafterPretrained
from engine.interruption import INTERRUPTS
from engine.pretraining.command import _tell

DRAFTER = ("README.md", "config.json", "model.safetensors")


@pytest.fixture(autouse=True)
def trained(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: RunConfig, out: Path, *__: Any, **___: Any) -> None:
        for folder in ("pretraining", "artifacts/drafter"):
            (out / folder).mkdir(parents=True, exist_ok=True)
        for name in DRAFTER:
            (out / "artifacts/drafter" / name).write_text(name)

    monkeypatch.setattr("engine.run.run", run)


def train(out: Path, *more: str) -> int:
    return main(["train", "--model", "tiny", "--task", "countdown", "--minutes", "1", "--out", str(out), *more])


@pytest.mark.parametrize("name", DRAFTER)
def test_a_drafter_that_was_not_all_written_is_written_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(source: Path, place: Path) -> None:
        if source.name == name:
            (place / name if place.is_dir() else place).touch()  # the file is there before what is in it
            raise OSError(errno.ENOSPC, "No space left on device")
        copy(source, place)

    copy = shutil.copy
    monkeypatch.setattr("shutil.copy", full)
    assert train(tmp_path / "out") == 2
    assert f"--out: {tmp_path / 'out'} cannot be written: No space left on device" in capsys.readouterr().err
    monkeypatch.setattr("shutil.copy", copy)
    assert train(tmp_path / "out") == 0
    assert {file.name for file in (tmp_path / "out").iterdir()} == {*DRAFTER, "training"}
    assert train(tmp_path / "out") == 2
    assert "there is a drafter in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--workers", "0"], "cluster.workers"),
        (["--minutes", "0"], "--minutes: give more than 0"),
        (["--minutes", "nan"], "drafter.pretrain_minutes"),
        (["--minutes", "inf"], "drafter.pretrain_minutes"),
        (["--temperature", "nan"], "rollout.temperature"),
        (["--learning-rate", "nan"], "drafter.pretrain_learning_rate"),
        (["--seed", "-1"], "seed"),
        (["--start", ""], "--start: give a drafter's folder, or leave it out"),
        (["--start", "auto", "--recipe", "eagle3"], "--start: there is no built-in drafter for tiny and --recipe eagle3"),
        (["--start", "builtin", "--recipe", "eagle3"], "--start: there is no built-in drafter for tiny and --recipe eagle3"),
        (["--start", "builtin", "--draft-vocabulary", "64"], "--draft-vocabulary: the drafter that is given as --start keeps its own"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str) -> None:
    assert train(tmp_path, *more) == 2
    assert message in capsys.readouterr().err


def test_a_folder_has_one_training_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "training").mkdir()
    other = os.open(tmp_path / "training", os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert train(tmp_path) == 2
        assert f"another process is training in {tmp_path / 'training'}; wait for it" in capsys.readouterr().err
    finally:
        os.close(other)
    assert train(tmp_path) == 0


def test_it_is_the_only_one_until_the_drafter_is_there_and_keeps_nothing_to_go_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(source: Path, folder: Path) -> None:
        copy(source, folder)
        other = os.open(tmp_path / "training", os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)

    copy = shutil.copy
    monkeypatch.setattr("shutil.copy", meanwhile)
    assert train(tmp_path) == 0
    assert {file.name for file in (tmp_path / "training").iterdir()} == {"config.json", "given.sha256"}


def test_files_of_others_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("mine")
    assert train(tmp_path) == 2
    assert f"--out: {tmp_path} has files of something else in it; choose a new folder or an empty one" in capsys.readouterr().err
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("README.md", "mine")]


@pytest.mark.parametrize("place", ["training/config.json", "training/checkpoints/best.pt", "training", "README.md"])
def test_a_training_of_others_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str) -> None:
    """Their folder may have any name."""
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("mine")
    assert train(tmp_path) == 2
    assert "has files of something else in it" in capsys.readouterr().err
    assert (tmp_path / place).read_text() == "mine"


def test_what_a_kill_left_of_a_training_that_had_ended_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path) == 0
    (tmp_path / "training/pretraining/step_000001").mkdir(parents=True)
    assert train(tmp_path) == 2
    assert "there is a drafter in" in capsys.readouterr().err
    assert not (tmp_path / "training/pretraining").exists()


def test_who_is_told_to_end_says_how_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.run.run", lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM))
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    try:
        assert train(tmp_path) == 75
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "the same command goes on after the last round" in capsys.readouterr().err


def test_a_training_that_was_killed_as_it_began_begins(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    assert train(tmp_path) == 0


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert train(tmp_path / "file" / "out") == 2
    assert "cannot be written: Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--model", "tiny", "--task", "countdown", "--minutes", "1", "--out"],
        ["export", "--format", "sglang", "--out", "out"],
        ["eval"],
    ],
    ids=lambda command: command[0],
)
def test_a_path_that_can_be_none_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*command, "x" * 300]) == 2
    assert re.fullmatch(r"error: x{300}(/README\.md)?: File name too long\n", capsys.readouterr().err)


def test_a_model_may_be_called_anything(tmp_path: Path) -> None:
    """Its name is not that of the run, which has fewer letters."""
    name = "\n" + "x" * 254
    assert main(["train", "--model", name, "--task", "countdown", "--minutes", "1", "--out", str(tmp_path)]) == 0


def test_a_training_goes_on_with_what_it_began_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, out = tmp_path / "given.jsonl", tmp_path / "out"
    given.write_text('{"prompt": "a", "response": "b"}\n')

    def again(*more: str, file: str = str(given)) -> int:
        if (out / "config.json").exists():  # as if it had been killed before the drafter was written
            (out / "config.json").unlink()
            storage.save(out / "training/pretraining", 1, {"state.json": {"drafter_version": 1}})
        return main(["train", "--model", "tiny", "--responses", file, "--minutes", "1", "--out", str(out), *more])

    assert (again(), again()) == (0, 0)
    assert again("--learning-rate", "1e-5") == 2
    assert "with another drafter.pretrain_learning_rate, 0.0005; choose another folder" in capsys.readouterr().err
    config = (out / "training/config.json").read_text()
    (out / "training/config.json").write_text(config[:100])
    assert again() == 2
    assert f"config.json is damaged; choose another folder, or remove {out}" in capsys.readouterr().err
    (out / "training/config.json").write_text(config)
    monkeypatch.chdir(out)
    assert again(file="../given.jsonl") == 0, "the same file by another name"
    given.rename(tmp_path / "blob")  # as hubs keep files
    given.symlink_to("blob")
    assert again() == 0
    given.write_text('{"prompt": "a", "response": "c"}\n')
    assert again() == 2
    assert "with other content of the file given; choose another folder" in capsys.readouterr().err


@pytest.mark.parametrize(("version", "code"), [(0, 0), (1, 2)])
def test_another_rate_goes_on_from_the_first_responses_until_a_round_is_over(tmp_path: Path, version: int, code: int) -> None:
    """They may have taken hours, and with the first rate the drafter may have diverged."""
    assert train(tmp_path) == 0
    (tmp_path / "config.json").unlink()
    storage.save(tmp_path / "training/pretraining", 1, {"state.json": {"drafter_version": version}})
    assert train(tmp_path, "--learning-rate", "1e-5") == code
    if code == 0:
        (tmp_path / "config.json").unlink()
        storage.save(tmp_path / "training/pretraining", 2, {"state.json": {"drafter_version": 1}})
        assert train(tmp_path, "--learning-rate", "1e-5") == 0, "it is the rate of this training now"


@pytest.mark.parametrize(("microsteps", "told"), [(3, "  loss 1.250  "), (0, "  without training  ")])
def test_a_round_without_a_step_has_no_loss(capsys: pytest.CaptureFixture[str], microsteps: int, told: str) -> None:
    counts = dict.fromkeys(("responses", "response_tokens", "tokens", "held_out", "top1", "top3", "vocabulary", "drafter_version"), 1)
    times = {"seconds": 20.0, "limit": 20.0, "end": 20.0, "accept_length": 1.5}
    loss = 1.25 if microsteps else None
    _tell(DrafterPretrained(round=2, done=True, microsteps=microsteps, loss=loss, **counts, **times))
    assert told in capsys.readouterr().out
