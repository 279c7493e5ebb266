import errno
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.checkpoint import storage, verification
from engine.checkpoint.verification import newest
from engine.errors import CheckpointError


def parts(value: float = 1.0) -> dict[str, Any]:
    return {
        "policy.pt": {"a": torch.full((3, 2), value), "b": torch.tensor([value], dtype=torch.bfloat16)},
        "optimizer.pt": {"state": {0: {"step": torch.tensor(7.0)}}, "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.95)}]},
        "loop.json": {"cursor": 12, "name": "x"},
        "drafter": lambda path: (path.mkdir(), (path / "notes.txt").write_text(str(value))),
    }


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_parts_come_back_as_they_were(tmp_path: Path) -> None:
    saved = storage.save(tmp_path, 10, parts())
    found = newest(tmp_path)
    assert found == saved
    assert (found.path, found.step) == (tmp_path / "step_000010", 10)
    torch.testing.assert_close(storage.read(found.path / "policy.pt"), parts()["policy.pt"], rtol=0, atol=0)
    assert storage.read(found.path / "optimizer.pt") == parts()["optimizer.pt"]
    assert storage.read(found.path / "loop.json") == {"cursor": 12, "name": "x"}
    assert (found.path / "drafter" / "notes.txt").read_text() == "1.0"


def test_no_checkpoint_is_not_an_error(tmp_path: Path) -> None:
    assert newest(tmp_path / "nowhere") is None


def test_steps_are_ordered_by_number(tmp_path: Path) -> None:
    for step in (999_999, 1_000_000, 20):
        storage.save(tmp_path, step, {"loop.json": step})
    found = newest(tmp_path)
    assert found is not None
    assert storage.read(found.path / "loop.json") == 1_000_000


def test_a_failing_part_leaves_no_checkpoint(tmp_path: Path) -> None:
    storage.save(tmp_path, 10, parts())

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        storage.save(tmp_path, 20, parts() | {"last.bin": fail})
    assert [path.name for path in tmp_path.glob("step_*")] == ["step_000010"]
    storage.save(tmp_path, 20, parts())
    assert names(tmp_path) == ["step_000010", "step_000020"]


def test_a_process_killed_while_it_saves_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from engine.checkpoint import storage
from engine.checkpoint.verification import newest
folder = Path(sys.argv[1])
storage.save(folder, 10, {"loop.json": 1})
storage.save(folder, 20, {"loop.json": 2, "last.bin": lambda path: os.kill(os.getpid(), signal.SIGKILL)})
"""
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == -9
    found = newest(tmp_path)
    assert found is not None
    assert (found.step, found.skipped) == (10, ())


def test_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    storage.save(tmp_path, 10, parts(1.0))
    storage.save(tmp_path, 10, parts(2.0))
    found = newest(tmp_path)
    assert found is not None
    assert storage.read(found.path / "policy.pt")["b"].item() == 2.0
    assert names(tmp_path) == ["step_000010"]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: flip(path / "policy.pt"), "policy.pt is damaged"),
        (lambda path: flip(path / "drafter" / "notes.txt"), "drafter/notes.txt is damaged"),
        (lambda path: (path / "loop.json").unlink(), "loop.json is missing"),
        (lambda path: (path / "manifest.json").unlink(), "manifest.json is not readable"),
        (lambda path: (path / "manifest.json").write_text('{"schema": 1, "st'), "manifest.json is not readable"),
        (lambda path: change(path / "manifest.json", files=[]), "manifest.json is not readable"),
        (lambda path: change(path / "manifest.json", schema=99), "schema 99"),
        (lambda path: change(path / "manifest.json", step=30), "is of step 30"),
    ],
)
def test_a_damaged_checkpoint_is_skipped_with_its_reason(tmp_path: Path, damage: Any, reason: str) -> None:
    storage.save(tmp_path, 10, parts(1.0))
    damage(storage.save(tmp_path, 20, parts(2.0)).path)
    found = newest(tmp_path)
    assert found is not None
    assert found.step == 10
    assert len(found.skipped) == 1
    assert reason in found.skipped[0]
    damage(found.path)
    with pytest.raises(CheckpointError, match="no checkpoint is usable") as caught:
        newest(tmp_path)
    assert all(name in str(caught.value) for name in ("step_000010", "step_000020"))


def test_a_checkpoint_that_the_disk_does_not_give_back_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (10, 20):
        storage.save(tmp_path, step, {"loop.json": step})
    sha256_of = verification.sha256_of

    def read(path: Path) -> str:
        if path.parent.name == "step_000020":
            raise OSError(errno.EIO, "Input/output error")
        return sha256_of(path)

    monkeypatch.setattr(verification, "sha256_of", read)
    found = newest(tmp_path)
    assert found is not None
    assert (found.step, found.skipped) == (10, ("step_000020: loop.json is damaged (its SHA-256 differs, or it cannot be read)",))


def test_prune_keeps_the_newest(tmp_path: Path) -> None:
    for step in (5, 10, 15, 20):
        storage.save(tmp_path, step, {"loop.json": step})
    storage.prune(tmp_path, keep=2)
    assert names(tmp_path) == ["step_000015", "step_000020"]
    storage.prune(tmp_path, keep=2)
    assert names(tmp_path) == ["step_000015", "step_000020"]


def test_prune_leaves_later_checkpoints_out(tmp_path: Path) -> None:
    for step in (5, 10, 15, 20):
        storage.save(tmp_path, step, {"loop.json": step})
    storage.prune(tmp_path, 1, step=15)
    assert names(tmp_path) == ["step_000015", "step_000020"]


@pytest.mark.parametrize(("name", "part"), [("x.pt", {"x": torch.zeros(100_000)}), ("x.json", list(range(100_000)))])
def test_a_full_disk_is_told_in_a_line(tmp_path: Path, name: str, part: Any) -> None:
    """A limit on file sizes stands for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(
            CheckpointError, match=f"{name} cannot be written: is the disk full .*Make room, then resume or start again$"
        ) as raised:
            storage.save(tmp_path, 1, {name: part})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(raised.value)
    assert newest(tmp_path) is None


def test_a_disk_that_turns_out_to_be_full_when_it_is_flushed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one over a network does, or one with quotas."""

    def full(_: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        CheckpointError, match=r"cannot be written: is the disk full \(Disk quota exceeded\)\? Make room, then resume or start again$"
    ):
        storage.save(tmp_path, 1, {"x.json": 1})
    assert newest(tmp_path) is None


@pytest.mark.parametrize(
    ("error", "told"), [(Exception("File too large (os error 27)"), CheckpointError), (KeyError("no such layer"), KeyError)]
)
def test_whoever_says_that_a_disk_is_full_is_understood(tmp_path: Path, error: Exception, told: type[Exception]) -> None:
    """Tokenizers do so by an exception without a type."""
    with pytest.raises(told), storage.writing(tmp_path):
        raise error
