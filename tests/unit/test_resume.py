"""What a run leaves to the next attempt, and from which checkpoint that goes on."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from engine import run
from engine.checkpoint import storage
from engine.checkpoint.background_saver import WORKERS
from engine.checkpoint.run_folder import CHECKPOINTS, STOP
from engine.config import RunConfig, parse
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
        storage.save(tmp_path / CHECKPOINTS, step, {WORKERS: lambda path: path.mkdir(), "x.json": step})
    (tmp_path / CHECKPOINTS / "step_000009" / "x.json").write_text("{")
    with EventWriter(tmp_path / "events.jsonl") as events, closing(run._events(RunConfig(), "", tmp_path, True, events)) as told:
        seen = [next(told) for _ in range(4)]
    assert workers.loaded == [tmp_path / CHECKPOINTS / "step_000004" / WORKERS]
    assert [event.first_step for event in seen if isinstance(event, RunStarted)] == [5]
    (warning,) = [event for event in seen if isinstance(event, Log)]
    assert warning.level == "warning"
    assert warning.message.endswith(
        "goes on from the one before: step_000009: x.json is damaged (its SHA-256 differs, or it cannot be read)"
    )


def test_a_folder_with_checkpoints_is_for_a_run_that_resumes(tmp_path: Path) -> None:
    storage.save(tmp_path / CHECKPOINTS, 4, {"x.json": 4})
    with pytest.raises(ConfigError, match=r"has checkpoints of a run; add --resume to go on with that, or choose another folder$"):
        run.run(RunConfig(), tmp_path)
    assert not (tmp_path / "events.jsonl").exists(), "the other run's events are left alone"


class Saver:
    """Has nothing to write."""

    def written(self) -> Iterator[Any]:
        yield from ()

    def save(self, _: int) -> Iterator[Any]:
        yield from ()

    def wait(self) -> Iterator[Any]:
        yield from ()


def test_a_wish_to_stop_that_comes_in_the_last_step_does_not_stop_the_next_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("load_tokenizer", "build_task"):
        monkeypatch.setattr(run, name, lambda *_: None)
    done: list[int] = []

    def step(*given: Any) -> Iterator[Any]:
        done.append(given[-1])
        (tmp_path / STOP).touch()
        yield from ()

    monkeypatch.setattr(run, "_step", step)
    config, nobody = parse({"algorithm": {"steps": 1}}), cast(Any, Workers())
    assert list(run._train(config, nobody, cast(Any, Saver()), tmp_path, 0)) == []
    assert (done, (tmp_path / STOP).exists()) == ([0], False)
