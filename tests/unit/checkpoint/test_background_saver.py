"""Checkpoints in the background: what is written is what was staged, each is told of once, and nothing fails silently."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engine.checkpoint.background_saver import FOLDER, BackgroundSaver
from engine.checkpoint.verification import newest
from engine.config import CheckpointConfig


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
    found = newest(out / FOLDER)
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
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["step_000005"]


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
