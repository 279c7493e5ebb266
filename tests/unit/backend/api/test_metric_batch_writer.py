"""What many requests write at the same moment."""

import asyncio
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
from awaiting import awaited
from sqlalchemy import event, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from backend.api.background import metric_batch_writer
from backend.api.background.metric_batch_writer import MOST_AT_ONCE, MetricBatchWriter
from backend.database import Database
from backend.errors import ConflictError
from backend.models import Project

Work = Callable[[Session], str]


@pytest.fixture(autouse=True)
def one_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_batch_writer, "WRITERS", 1)


def adding(name: str) -> Work:
    def work(session: Session) -> str:
        session.add(Project(name=name))
        session.flush()
        return name

    return work


def refused(session: Session) -> str:
    adding("refused")(session)
    raise ConflictError("no")


def names(database: Database) -> set[str]:
    with database.read() as session:
        return set(session.scalars(select(Project.name).where(Project.name != "default")))


def counted(database: Database) -> list[Any]:
    commits: list[Any] = []
    event.listen(database.writer, "commit", commits.append)
    return commits


def written(database: Database, *works: Work) -> list[Any]:
    """What each gives or raises, all of them asked for while another one is being written."""
    writer, started, release = MetricBatchWriter(database), threading.Event(), threading.Event()

    def slow(_session: Session) -> None:
        started.set()
        assert release.wait(60)

    async def ask() -> list[Any]:
        first = asyncio.create_task(writer.write("", slow))
        assert await asyncio.to_thread(started.wait, 60)
        asked = [asyncio.create_task(writer.write(str(number), work)) for number, work in enumerate(works)]
        await asyncio.sleep(0)
        release.set()
        await first
        return await asyncio.gather(*asked, return_exceptions=True)

    try:
        return awaited(ask())
    finally:
        writer.close()


def test_who_waits_is_written_in_one_transaction(database: Database) -> None:
    commits = counted(database)
    assert written(database, adding("a"), adding("b"), adding("c")) == ["a", "b", "c"]
    assert len(commits) == 1
    assert names(database) == {"a", "b", "c"}


def test_one_that_is_refused_leaves_nothing_and_harms_no_other(database: Database) -> None:
    first, no, double, last = written(database, adding("a"), refused, adding("a"), adding("b"))
    assert (first, last) == ("a", "b")
    assert isinstance(no, ConflictError)
    assert isinstance(double, Exception)
    assert names(database) == {"a", "b"}


def test_a_database_that_does_not_answer_is_asked_once_for_all(database: Database) -> None:
    asked: list[str] = []

    def unanswered(_session: Session) -> str:
        asked.append("once")
        raise OperationalError("", None, Exception("database is locked"))

    found = written(database, adding("a"), unanswered, adding("b"))
    assert [type(each) for each in found] == [OperationalError] * 3
    assert asked == ["once"]
    assert names(database) == set()


def test_a_crowd_is_written_in_groups(database: Database) -> None:
    commits = counted(database)
    written(database, *(adding(str(number)) for number in range(100)))
    assert len(names(database)) == 100
    assert len(commits) == math.ceil(100 / MOST_AT_ONCE)
