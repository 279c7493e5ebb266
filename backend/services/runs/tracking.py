"""Runs that scripts carry out elsewhere and tell of: begun as running, fed batch by batch, closed by the script, or for its silence."""

import hashlib
import time
from collections.abc import Iterable
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.orm import Session

from backend.database import affected, storable_number, storable_text
from backend.errors import ConflictError, InvalidError, NotFoundError
from backend.models import Batch, LogLine, MetricKey, Project, Run, is_id
from backend.services.runs import search_index
from backend.services.runs.lifecycle import transition
from backend.services.runs.lookup import find
from backend.services.runs.submission import SubmissionKey, digest_of, earlier_submission, keep_key, refuse_archived
from backend.services.telemetry import metric_storage
from backend.services.telemetry.metric_storage import SeriesExtent
from backend.services.telemetry.run_statistics import recent_figures
from backend.services.webhooks.notifications import queue_deliveries
from longtail.schemas.base import FieldError
from longtail.schemas.runs import RunState
from longtail.schemas.tracking import NewBatch, NewLine, NewPoints, Receipt, Tracked

MOST_SERIES = 2000
SUMMARY_KEYS = 100
# Made once, not for every batch:
HEARD = (
    select(Run.kind, Run.state, Run.error, Run.cancel_requested, Run.step, Run.summary, Run.deleted_at)
    .where(Run.id == bindparam("run_id"))
    .with_for_update()
)
SENT = select(Batch.sha256).where(Batch.run_id == bindparam("run_id"), Batch.id == bindparam("batch_id"))
PROGRESS = update(Run).where(Run.id == bindparam("of_run"))


def begin(session: Session, body: Tracked, project: Project, owner: str, key: SubmissionKey | None, silence: float) -> tuple[Run, bool]:
    """The run, which is running at once, and whether it is new: a repeated idempotency key gives the run of its first use. ConflictError
    if its project is archived."""
    digest = digest_of({"track": body.model_dump(mode="json"), "owner": owner, "project": project.id})
    if key is not None and (earlier := earlier_submission(session, key, digest)):
        return earlier, False
    refuse_archived(project)
    now = time.time()
    facts = body.model_dump() | {"project_id": project.id}
    run = Run(kind="tracked", state="running", seed=0, owner=owner, started_at=now, lease_expires_at=now + silence, **facts)
    session.add(run)
    session.flush()
    search_index.index_run(session, run)
    queue_deliveries(session, run.id, "run.running")
    if key is not None:
        keep_key(session, key, digest, run)
    return run, True


def ingest(session: Session, run_id: str, batch: NewBatch, silence: float) -> Receipt:
    """Writes the batch unless it is here already; ConflictError if its run is finished, or is not one that a script tracks."""
    run = _heard(session, run_id)
    digest = hashlib.sha256(batch.model_dump_json().encode()).hexdigest()
    connection = session.connection()
    before = connection.scalar(SENT, {"run_id": run_id, "batch_id": batch.id})
    if before is not None:
        if before != digest:
            raise ConflictError(f"another batch of run {run_id} had the id {batch.id}; each needs one of its own, such as a random one")
        return Receipt(repeated=True, cancel_requested=run.cancel_requested)
    if run.state != "running":
        raise ConflictError(f"run {run_id} is {run.state}: nothing can be added to it" + (f" ({run.error})" if run.error else ""))
    progress = write(session, run_id, batch, run.step, run.summary)
    if batch.series or batch.lines:
        connection.execute(insert(Batch), {"run_id": run_id, "id": batch.id, "sha256": digest})
    connection.execute(PROGRESS, {"of_run": run_id, "lease_expires_at": time.time() + silence, **progress})
    return Receipt(repeated=False, cancel_requested=run.cancel_requested)


def write(session: Session, run_id: str, batch: NewBatch, step: int, summary: dict[str, float | None]) -> dict[str, Any]:
    """Points and lines of the batch; how far the run has come with it, and its summary, which were ``step`` and ``summary`` before."""
    ends = metric_storage.write_points(session, run_id, _rows(run_id, batch.series)) if batch.series else {}
    _bounded(session, run_id, ends, summary)
    if batch.lines:
        session.connection().execute(insert(LogLine), [_line(run_id, line) for line in batch.lines])
    return {"step": max([step, *(end.last_step + 1 for end in ends.values())]), "summary": _summary(summary, ends)}


def finish(session: Session, run_id: str, state: RunState, error: str | None) -> Run:
    """Closes the run. Doing so again, with the same state, does no harm; ConflictError for another."""
    run = find(session, run_id, lock=True)
    if run.kind != "tracked":
        raise _not_tracked(run_id)
    if not close(session, run_id, state, error, "script") and run.state != state:
        raise ConflictError(f"run {run_id} is {run.state} already" + (f" ({run.error})" if run.error else ""))
    session.refresh(run)
    return run


def close(session: Session, run_id: str, state: RunState, error: str | None, code: str) -> bool:
    """False if it was closed before. With it go the marks of its batches, as no more can come. Only now can it be found by its summary:
    to keep that up with every batch would cost more than the batch."""
    why: dict[str, Any] = {"error": error and storable_text(error), "error_code": code} if state == "failed" else {}
    if not transition(session, run_id, state, lease_expires_at=None, **why):
        return False
    affected(session, delete(Batch).where(Batch.run_id == run_id))
    summary = session.scalars(select(Run.summary).where(Run.id == run_id)).one()
    if recent := recent_figures(session, run_id):
        summary = summary | recent
        affected(session, update(Run).where(Run.id == run_id).values(summary=summary))
    search_index.index_summary(session, run_id, summary)
    return True


def _heard(session: Session, run_id: str) -> Any:
    """What a batch has to know of its run, which is locked."""
    run = session.connection().execute(HEARD, {"run_id": run_id}).one_or_none() if is_id(run_id) else None
    if run is None or run.deleted_at is not None:
        raise NotFoundError(f"there is no run {run_id}")
    if run.kind != "tracked":
        raise _not_tracked(run_id)
    return run


def _not_tracked(run_id: str) -> ConflictError:
    return ConflictError(f"run {run_id} is carried out by a worker; only a tracked run is told about")


def _rows(run_id: str, new: Iterable[NewPoints]) -> list[dict[str, Any]]:
    return [{"run_id": run_id, "key": one.key, "step": step, "value": storable_number(value)} for one in new for step, value in one.points]


def _line(run_id: str, line: NewLine) -> dict[str, Any]:
    own = line.model_dump() | {"message": storable_text(line.message), "time": time.time() if line.time is None else line.time}
    return {"run_id": run_id, "source": "script"} | own


def _bounded(session: Session, run_id: str, ends: dict[str, SeriesExtent], summary: dict[str, Any]) -> None:
    if ends.keys() <= summary.keys():
        return
    count = session.scalar(select(func.count()).where(MetricKey.run_id == run_id)) or 0
    if count > MOST_SERIES:
        message = f"run {run_id} would have {count} series; {MOST_SERIES} is the most"
        raise InvalidError(message, [FieldError(field="series", message=message)])


def _summary(summary: dict[str, float | None], ends: dict[str, SeriesExtent]) -> dict[str, float | None]:
    """The latest values of the first SUMMARY_KEYS series."""
    latest = {key: end.value for key, end in ends.items()}
    room = max(SUMMARY_KEYS - len(summary), 0)
    new = [key for key in latest if key not in summary][:room]
    return summary | {key: latest[key] for key in latest if key in summary or key in new}
