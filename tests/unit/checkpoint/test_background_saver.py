"""Checkpoints in the background: what is written is what was staged, each is told of once, and nothing fails silently."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engine.checkpoint import storage
from engine.checkpoint.background_saver import BackgroundSaver
from engine.checkpoint.run_folder import CHECKPOINTS
from engine.checkpoint.verification import newest
from engine.config import CheckpointConfig
from engine.errors import TakenOverError
from engine.events import EventWriter


class Workers:
    """Their state is a number; writing it waits for ``go``."""

    def __init__(self) -> None:
        self.state, self.staged = 0, -1
        self.go = Event()
        self.fails = False

    def stage(self) -> None:
        self.staged = self.state

    def write(self, folder: Path) -> None:
        self.go.wait()
        if self.fails:
            raise OSError("disk full")
        folder.mkdir()
        (folder / "state").write_text(str(self.staged))


@pytest.fixture
def workers() -> Any:
    return Workers()


def latest(out: Path) -> tuple[int, str] | None:
    found = newest(out / CHECKPOINTS)
    return (found.step, (found.path / "workers" / "state").read_text()) if found else None


def test_training_goes_on_while_what_was_staged_is_written(workers: Any, tmp_path: Path) -> None:
    with BackgroundSaver(CheckpointConfig(keep=1), workers, tmp_path) as saver:
        assert list(saver.save(3)) == []
        workers.state = 7
        assert list(saver.written()) == []
        assert latest(tmp_path) is None
        workers.go.set()
        assert [(event.step, event.path) for event in saver.wait()] == [(3, "checkpoints/step_000003")]
        assert latest(tmp_path) == (3, "0")
        assert list(saver.written()) == list(saver.wait()) == [], "it is told of once"
        assert list(saver.save(4)) == []
        assert [event.step for event in saver.save(5)] == [4], "one at a time"
    assert latest(tmp_path) == (5, "7"), "the end waits for it"
    assert [path.name for path in (tmp_path / CHECKPOINTS).iterdir()] == ["step_000005"]


def test_a_run_that_goes_on_from_an_older_checkpoint_loses_none_to_the_damaged_one(workers: Any, tmp_path: Path) -> None:
    workers.go.set()
    with BackgroundSaver(CheckpointConfig(keep=1), workers, tmp_path) as saver:
        list(saver.save(20))
    (tmp_path / CHECKPOINTS / "step_000020" / "workers" / "state").write_text("x")
    with BackgroundSaver(CheckpointConfig(keep=1), workers, tmp_path) as saver:
        list(saver.save(14))
    assert latest(tmp_path) == (14, "0")


def test_what_goes_wrong_in_the_background_is_raised(workers: Any, tmp_path: Path) -> None:
    workers.go.set()
    with BackgroundSaver(CheckpointConfig(), workers, tmp_path) as saver:
        list(saver.save(0))
        list(saver.wait())
        workers.fails = True
        list(saver.save(1))
        with pytest.raises(OSError, match="disk full"):
            list(saver.wait())
    assert latest(tmp_path) == (0, "0")


def test_who_was_succeeded_meanwhile_leaves_no_checkpoint_and_clears_none_away(workers: Any, tmp_path: Path) -> None:
    """As an engine that wakes up from a pause while another one goes on with the run."""
    events = EventWriter(tmp_path / "events.jsonl")
    with BackgroundSaver(CheckpointConfig(keep=1), workers, tmp_path, events.fence) as saver:
        list(saver.save(3))
        successor = EventWriter(tmp_path / "events.jsonl", take_over=True)
        workers.go.set()
        with pytest.raises(TakenOverError):
            list(saver.wait())
        assert latest(tmp_path) is None
        half = tmp_path / CHECKPOINTS / ".step_000004.of-the-successor"
        half.mkdir(parents=True)  # the first save may not have come as far as that
        workers.state = 5
        with pytest.raises(TakenOverError):
            list(saver.save(4))
        assert (half.is_dir(), workers.staged) == (True, 0), "nothing was swept, and nothing staged"
    with BackgroundSaver(CheckpointConfig(keep=1), workers, tmp_path, successor.fence) as saver:
        list(saver.save(4))
    assert latest(tmp_path) == (4, "5")
    assert [path.name for path in (tmp_path / CHECKPOINTS).iterdir()] == ["step_000004"]


def test_two_that_save_the_same_step_mix_nothing(tmp_path: Path) -> None:
    """The part that one of them writes is late: its folder is gone by then, and it does not write into the other one's."""
    go, begun = Event(), Event()

    def late(path: Path) -> None:
        begun.set()
        go.wait()
        path.write_text("old")

    with ThreadPoolExecutor(1) as pool:
        old = pool.submit(storage.save, tmp_path, 1, {"part": late, "more": lambda path: path.write_text("old")})
        begun.wait()
        storage.save(tmp_path, 1, {"part": lambda path: path.write_text("new")})
        go.set()
        with pytest.raises(FileNotFoundError):
            old.result()
    found = newest(tmp_path)
    assert found is not None
    assert {path.name: path.read_text() for path in found.path.iterdir() if path.name != "manifest.json"} == {"part": "new"}
