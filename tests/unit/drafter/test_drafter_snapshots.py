"""Snapshots of the drafter in training: written behind its back, verified, and there after a kill."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2ForCausalLM

from engine.checkpoint import storage
from engine.checkpoint.drafter_snapshots import KEPT, SessionProgress, Snapshot, SnapshotWriter, newest_snapshot
from engine.checkpoint.verification import VerifiedCheckpoint
from engine.drafter.model import Drafter
from engine.drafter.spot_trainer import SpotTrainer

PROGRESS = SessionProgress(target=4)


def snapshot(microsteps: int) -> Snapshot:
    return Snapshot(replace(PROGRESS, microsteps=microsteps), {"weight": torch.full((3,), float(microsteps))})


def found_in(folder: Path) -> Snapshot:
    found = newest_snapshot(folder)
    assert found is not None
    return found


def trainable(trainer: SpotTrainer) -> int:
    return sum(parameter.nbytes for parameter in trainer.drafter.parameters())


class Gate(threading.Event):
    """``started`` tells of each write that begins."""

    def __init__(self) -> None:
        super().__init__()
        self.started = threading.Semaphore(0)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Holds back every write until it is set."""
    gate, save = Gate(), storage.save

    def slow(*arguments: Any) -> VerifiedCheckpoint:
        gate.started.release()
        assert gate.wait(60)
        return save(*arguments)

    monkeypatch.setattr(storage, "save", slow)
    yield gate
    gate.set()


def test_what_was_put_last_is_there_after_the_close(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path)
    for microsteps in range(1, 6):
        writer.put(snapshot(microsteps))
    writer.close()
    found = found_in(tmp_path)
    assert found.progress == SessionProgress(4, 5)
    assert found.state["weight"].tolist() == [5.0] * 3
    assert len(list(tmp_path.iterdir())) <= KEPT


def test_a_newer_snapshot_takes_the_place_of_one_that_waits(tmp_path: Path, gate: Gate) -> None:
    writer = SnapshotWriter(tmp_path)
    writer.put(snapshot(1))
    assert gate.started.acquire(timeout=120)
    for microsteps in (2, 3, 4):
        writer.put(snapshot(microsteps))  # returns though nothing can be written
    gate.set()
    writer.close()
    assert found_in(tmp_path).progress.microsteps == 4
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["step_000000", "step_000003"]


def test_a_failed_write_surfaces_at_the_next_call_once(tmp_path: Path) -> None:
    (tmp_path / "drafter").write_text("a file where the folder should be")
    writer = SnapshotWriter(tmp_path / "drafter")
    writer.put(snapshot(1))
    while not writer._writes[0].done():
        pass
    with pytest.raises(FileExistsError):
        writer.put(snapshot(2))
    (tmp_path / "drafter").unlink()
    writer.put(snapshot(3))
    writer.close()
    assert found_in(tmp_path / "drafter").progress.microsteps == 3


def test_a_failed_write_surfaces_at_the_close(tmp_path: Path) -> None:
    (tmp_path / "drafter").write_text("")
    writer = SnapshotWriter(tmp_path / "drafter")
    writer.put(snapshot(1))
    with pytest.raises(FileExistsError):
        writer.close()


def test_a_damaged_snapshot_gives_way_to_the_one_before(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path)
    writer.put(snapshot(1))
    writer.close()
    writer = SnapshotWriter(tmp_path)
    writer.put(snapshot(2))
    writer.close()
    for number, left in ((1, 1), (0, None)):
        file = tmp_path / f"step_{number:06d}" / "trainer.pt"
        file.write_bytes(file.read_bytes()[:-1] + b"?")
        assert (found.progress.microsteps if (found := newest_snapshot(tmp_path)) else None) == left
    writer = SnapshotWriter(tmp_path)
    writer.put(snapshot(3))
    writer.close()
    assert found_in(tmp_path).progress.microsteps == 3, "numbers go on behind damaged ones"


def test_only_what_is_trained_is_written(trainer: SpotTrainer, target: Qwen2ForCausalLM, tmp_path: Path) -> None:
    """The optimizer keeps two tensors a weight; embedding and head, and what the buffer holds, are elsewhere."""
    for batch in islice(trainer.one_pass(), 2):
        trainer.micro_step(batch)
    writer = SnapshotWriter(tmp_path)
    writer.put(Snapshot(PROGRESS, trainer.state_dict()))
    writer.close()
    size = (tmp_path / "step_000000" / "trainer.pt").stat().st_size
    assert 3 * trainable(trainer) < size < 3 * trainable(trainer) + 60_000
    tensors = found_in(tmp_path).state["drafter"].values()
    assert not any(tensor.shape == target.model.embed_tokens.weight.shape for tensor in tensors)


def test_a_snapshot_is_out_of_the_reach_of_later_training(
    trainer: SpotTrainer, target: Qwen2ForCausalLM, tmp_path: Path, gate: Gate
) -> None:
    for batch in islice(trainer.one_pass(), 3):
        trainer.micro_step(batch)
    weights = trainer.weights()
    writer = SnapshotWriter(tmp_path)
    writer.put(Snapshot(PROGRESS, trainer.state_dict()))
    after = [trainer.micro_step(batch) for batch in islice(trainer.one_pass(), 3)]
    gate.set()
    writer.close()
    resumed = SpotTrainer(Drafter(target.config), trainer.buffer, trainer.config)
    resumed.set_target(target.model.embed_tokens.weight, target.lm_head.weight)
    resumed.load_state_dict(found_in(tmp_path).state)
    assert all(torch.equal(weight, weights[name]) for name, weight in resumed.weights().items())
    again = [resumed.micro_step(batch) for batch in islice(resumed.one_pass(), 3)]
    assert again == after, "the optimizer's state and the order of the data, too"


def test_no_snapshot(tmp_path: Path) -> None:
    assert newest_snapshot(tmp_path / "nothing") is None
