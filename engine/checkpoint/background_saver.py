"""Checkpoints written while training goes on: it stands still for a copy to host memory only."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from engine.checkpoint import storage
from engine.checkpoint.run_folder import CHECKPOINTS
from engine.cluster.worker_group import WorkerGroup
from engine.config import CheckpointConfig
from engine.events import CheckpointSaved

WORKERS = "workers"


class BackgroundSaver:
    """Saves the state of ``workers`` below ``out``, one checkpoint at a time, until ``fence`` raises. What went wrong in the background is
    raised by the next call.

    A run that is killed before a checkpoint is complete resumes from the one before.
    """

    def __init__(self, config: CheckpointConfig, workers: WorkerGroup, out: Path, fence: storage.Fence = storage.unfenced) -> None:
        self._keep, self._workers, self._out, self._fence = config.keep, workers, out, fence
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[CheckpointSaved] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Returns once nothing is being written any more: the workers must not go before that."""
        self._thread.shutdown()

    def save(self, step: int) -> Iterator[CheckpointSaved]:
        """Begins the checkpoint after ``step``; the event of the one before, if that had still to be waited for."""
        yield from self.wait()
        self._fence()  # before staging, which clears files of the buffer away
        began = time.time()
        self._workers.stage()
        self._writing = self._thread.submit(self._write, step, began)

    def written(self) -> Iterator[CheckpointSaved]:
        """The event of the last checkpoint, once, when it is complete."""
        if self._writing and self._writing.done():
            yield from self.wait()

    def wait(self) -> Iterator[CheckpointSaved]:
        """That event, as soon as it is complete."""
        writing, self._writing = self._writing, None
        if writing:
            yield writing.result()

    def _write(self, step: int, began: float) -> CheckpointSaved:
        saved = storage.save(self._out / CHECKPOINTS, step, {WORKERS: self._workers.write}, self._fence)
        storage.prune(self._out / CHECKPOINTS, self._keep, step)
        return CheckpointSaved(step=step, path=str(saved.path.relative_to(self._out)), seconds=time.time() - began)
