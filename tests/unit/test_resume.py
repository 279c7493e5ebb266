"""From which checkpoint a run goes on, and what users are told of those that it passes over."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import run
from engine.checkpoint import storage
from engine.checkpoint.background_saver import FOLDER, WORKERS
from engine.config import RunConfig
from engine.errors import ConfigError
from engine.events import EventWriter, Log, RunStarted


class Workers:
    """Ready to go on from ``loaded``."""

    def __init__(self) -> None:
        self.facts = {"workers": "2", "parameters": "1", "device": "cpu", "dtype": "float32"}
        self.loaded: list[Path] = []

    def measure_costs(self) -> None:
        pass

    def load(self, folder: Path) -> None:
        self.loaded.append(folder)


def test_a_damaged_checkpoint_is_passed_over_and_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers()

    @contextmanager
    def group(*_: Any) -> Iterator[Workers]:
        yield workers

    monkeypatch.setattr(run, "worker_group", group)
    for step in (4, 9):
        storage.save(tmp_path / FOLDER, step, {WORKERS: lambda path: path.mkdir(), "x.json": step})
    (tmp_path / FOLDER / "step_000009" / "x.json").write_text("{")
    with EventWriter(tmp_path / "events.jsonl") as events, closing(run._events(RunConfig(), "", tmp_path, True, events)) as told:
        seen = [next(told) for _ in range(4)]
    assert workers.loaded == [tmp_path / FOLDER / "step_000004" / WORKERS]
    assert [event.first_step for event in seen if isinstance(event, RunStarted)] == [5]
    (warning,) = [event for event in seen if isinstance(event, Log)]
    assert warning.level == "warning"
    assert warning.message.endswith(
        "goes on from the one before: step_000009: x.json is damaged (its SHA-256 differs, or it cannot be read)"
    )


def test_a_folder_with_checkpoints_is_for_a_run_that_resumes(tmp_path: Path) -> None:
    storage.save(tmp_path / FOLDER, 4, {"x.json": 4})
    with pytest.raises(ConfigError, match=r"has checkpoints of a run; add --resume to go on with that, or choose another folder$"):
        run.run(RunConfig(), tmp_path)
    assert not (tmp_path / "events.jsonl").exists(), "the other run's events are left alone"
