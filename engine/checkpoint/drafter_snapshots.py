"""Selective asynchronous checkpoints of a drafter in training (TLT section 3): trainable tensors and optimizer state, nothing frozen.

The training thread copies them to host memory; one background thread writes them as ``engine.checkpoint.storage`` does: aside, with a
SHA-256, flushed, and renamed, so that a kill at any moment leaves the one before.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.checkpoint import storage
from engine.checkpoint.verification import newest
from engine.errors import CheckpointError

KEPT = 2
TRAINER, PROGRESS = "trainer.pt", "progress.json"


@dataclass(frozen=True)
class SessionProgress:
    """How far a training session is: the version of the target whose responses it trains on, and its ``microsteps``."""

    target: int
    microsteps: int = 0


@dataclass(frozen=True)
class Snapshot:
    """``state`` as in ``SpotTrainer.state_dict``, on the host."""

    progress: SessionProgress
    state: Mapping[str, Any]


class SnapshotWriter:
    """Writes snapshots into ``folder``, each in place of older ones. Errors of the background thread surface at the next call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = max((int(path.name.removeprefix("step_")) for path in folder.glob("step_*")), default=-1)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="drafter-checkpoint")
        self._writes: list[Future[None]] = []

    def put(self, snapshot: Snapshot) -> None:
        """Has ``snapshot`` written, and returns at once; one that waits for an older one's end gives way to it.

        Nobody may change the snapshot's tensors any more. Raises what made an earlier write fail.
        """
        self._settle([write for write in self._writes if not write.cancel()])
        self._number += 1
        self._writes.append(self._thread.submit(self._write, self._number, snapshot))

    def close(self) -> None:
        """Waits until everything is written. Raises what made a write fail."""
        self._thread.shutdown()
        self._settle(self._writes)

    def _settle(self, writes: list[Future[None]]) -> None:
        done = [write for write in writes if write.done()]
        self._writes = [write for write in writes if write not in done]
        for write in done:
            write.result()

    def _write(self, number: int, snapshot: Snapshot) -> None:
        storage.save(self._folder, number, {TRAINER: snapshot.state, PROGRESS: asdict(snapshot.progress)})
        storage.prune(self._folder, KEPT)


def newest_snapshot(folder: Path) -> Snapshot | None:
    """The newest snapshot that verifies; None if there is none, for then the run's own checkpoint will do."""
    try:
        found = newest(folder)
    except CheckpointError:
        return None
    return Snapshot(SessionProgress(**storage.read(found.path / PROGRESS)), storage.read(found.path / TRAINER)) if found else None
