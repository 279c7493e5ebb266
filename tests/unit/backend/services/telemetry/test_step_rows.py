"""Rows of steps come in parts of whole steps, however many there are."""

from typing import Any

from sqlalchemy import insert

from backend.api.routes.telemetry import NARROW_ROWS
from backend.database import Database
from backend.models import DrafterSession, WorkerSpan
from backend.services.telemetry.step_rows import StepRange, rows_of_steps
from longtail import Longtail
from longtail.schemas import telemetry
from longtail.schemas.base import StepItems


def add_spans(database: Database, run_id: str, steps: int, workers: int) -> None:
    span = {"run_id": run_id, "state": "BUSY", "start": 0.0, "end": 1.0}
    rows = [span | {"step": seq // workers, "seq": seq, "worker": seq % workers} for seq in range(steps * workers)]
    with database.write() as session:
        session.execute(insert(WorkerSpan), rows)


PARTS = [
    (9, -1, 1, [0, 1, 2], 2),
    (11, -1, 1, [0, 1, 2], 2),
    (3, -1, 1, [0], 0),
    (2, -1, 1, [0], 0),
    (2, 3, 1, [4], 4),
    (15, -1, 1, [0, 1, 2, 3, 4], None),
    (14, -1, 1, [0, 1, 2, 3], 3),
    (6, 2, 1, [3, 4], None),
    (6, -1, 2, [0, 2], 2),
    (9, 4, 1, [], None),
]


def test_parts_are_of_whole_steps(database: Database, run_id: str) -> None:
    add_spans(database, run_id, steps=5, workers=3)
    with database.read() as session:
        for most, since, every, steps, after in PARTS:
            rows, last = rows_of_steps(session, WorkerSpan, run_id, StepRange(since, every=every), most)
            assert [(row.step, row.worker) for row in rows] == [(step, worker) for step in steps for worker in range(3)], (most, since)
            assert last == after, (most, since)


def test_of_what_not_every_step_has_each_span_of_a_long_run_keeps_its_first(database: Database, run_id: str) -> None:
    session: dict[str, Any] = {"time": 0.0, "drafter_version": 1, "published": True, "reason": "", "microsteps": 1, "tokens": 1}
    rows = [session | {"run_id": run_id, "step": step, "seq": step} for step in (3, 5, 12, 13, 22)]
    with database.write() as writing:
        writing.execute(insert(DrafterSession), rows)
    with database.read() as reading:
        for since, steps in ((-1, [3, 12, 22]), (3, [12, 22]), (11, [12, 22]), (12, [22]), (22, [])):
            found, _ = rows_of_steps(reading, DrafterSession, run_id, StepRange(since, every=8), 100)
            assert [row.step for row in found] == steps, since


def test_a_timeline_comes_in_parts_and_the_client_puts_them_together(client: Longtail, database: Database) -> None:
    run_id, workers = client.begin("long").id, NARROW_ROWS // 2 - 1
    add_spans(database, run_id, steps=3, workers=workers)
    first = client._get(StepItems[telemetry.WorkerSpan], f"/api/v1/runs/{run_id}/spans")
    assert (len(first.items), first.next_since_step) == (2 * workers, 1)
    assert len(client.spans(run_id)) == 3 * workers
    assert {span.step for span in client.spans(run_id, 0, 1)} == {1}
