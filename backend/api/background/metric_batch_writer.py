"""Writes the batches of metric points that come from many scripts at the same moment. Few threads write all that wait, in one transaction:
many that write in turn wait for each other at every statement, and to begin and to commit costs as much as to write a few points."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from backend.database import NO_ANSWER, Database

T = TypeVar("T")
MOST_AT_ONCE = 16
WRITERS = 4
"""On PostgreSQL, which may be far away; SQLite takes one."""


@dataclass(frozen=True)
class PendingWrite:
    row: str
    work: Callable[[Session], Any]
    answer: Future[Any] = field(default_factory=Future)


class MetricBatchWriter:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[PendingWrite] = deque()
        self._taking = threading.Lock()
        self._threads = ThreadPoolExecutor(1 if database.writer is not database.reader else WRITERS, "batch_writer")

    async def write(self, row: str, work: Callable[[Session], T]) -> T:
        """What ``work`` gives once it is committed, or what it raises; then nothing that it wrote stays. It locks no ``row`` but this."""
        job = PendingWrite(row, work)
        self._waiting.append(job)
        self._threads.submit(self._write_waiting)
        answer: T = await asyncio.wrap_future(job.answer)
        return answer

    def close(self) -> None:
        self._threads.shutdown()

    def _write_waiting(self) -> None:
        with self._taking:
            jobs = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
        running = [job for job in jobs if job.answer.set_running_or_notify_cancel()]
        if running:
            self._write(sorted(running, key=lambda job: job.row))  # everywhere in this order, so that no two lock each other out

    def _write(self, jobs: Sequence[PendingWrite]) -> None:
        """If one of them is refused, each is written by itself."""
        try:
            self._commit(jobs)
        except Exception as error:  # whoever waits for the answer gets it
            if len(jobs) > 1 and not isinstance(error, NO_ANSWER):
                for job in jobs:
                    self._write([job])
            else:
                for job in jobs:
                    job.answer.set_exception(error)

    def _commit(self, jobs: Sequence[PendingWrite]) -> None:
        with self._database.write() as session:
            answers = [job.work(session) for job in jobs]
        for job, answer in zip(jobs, answers, strict=True):
            job.answer.set_result(answer)
