"""Puts such runs into a database by the code that real runs' events come in by, and takes them out again."""

import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import delete, exists, func, select, update
from sqlalchemy.orm import Session

from backend.database import Database, affected
from backend.demo_data import telemetry, texts, worker_hosts
from backend.demo_data.experiments import PROJECTS
from backend.demo_data.planned_runs import PlannedRun
from backend.demo_data.worker_hosts import NEVER
from backend.models import Artifact, Attempt, Project, Run, Worker
from backend.models.runs import GENERATED
from backend.services.artifacts.garbage_collection import free_content
from backend.services.runs import search_index
from backend.services.runs.lifecycle import ACTIVE
from backend.services.telemetry.event_ingest import EventRowWriter
from backend.settings import Settings
from backend.storage.store import Store
from engine.events import AnyEvent, Log
from longtail.schemas.runs import TERMINAL_STATES

RUNS_AT_ONCE, EVENTS_AT_ONCE = 50, 20_000
"""In a transaction, at most."""
ABOUT = "Generated; longtail demo-data --remove takes it away."
WAITED_SECONDS = 20.0
ATTEMPTS = {"paused": "handed_over", "starting": "running"}
"""What the attempt of a run in such a state is called, where it is called otherwise."""


def count(database: Database) -> tuple[int, int]:
    """How many runs are generated ones, and how many are not."""
    with database.read() as session:
        ours = session.scalar(select(func.count()).where(Run.id.endswith(GENERATED))) or 0
        return ours, (session.scalar(select(func.count()).select_from(Run)) or 0) - ours


def fill(database: Database, plans: Iterable[PlannedRun], runs: Path | None = None, last: int | None = None) -> list[str]:
    """Adds the runs; their ids. They leave their artifacts in their folders below ``runs``, and none without. With ``last``, only the
    last so many steps of each are told."""
    ids: list[str] = []
    with Session(database.writer) as session:
        for project_id, name in PROJECTS.items():
            if session.get(Project, project_id) is None:
                session.add(Project(id=project_id, name=name, description=ABOUT))
        for plan in plans:
            _put(session, plan, runs, last)
            ids.append(plan.id)
            if len(ids) % RUNS_AT_ONCE == 0:
                session.commit()
        session.commit()
    return ids


def remove(database: Database, settings: Settings, store: Store) -> int:
    """Takes out all generated runs and workers, with their folders and what only they had in the store; how many runs they were."""
    with database.read() as session:
        ids = session.scalars(select(Run.id).where(Run.id.endswith(GENERATED))).all()
        contents = session.scalars(select(Artifact.sha256).where(Artifact.run_id.endswith(GENERATED)).distinct()).all()
    for run_id in ids:
        with database.write() as session:
            affected(session, delete(Run).where(Run.id == run_id))
        shutil.rmtree(settings.run_folder(run_id), ignore_errors=True)
    for sha256 in contents:
        free_content(database, store, sha256)
    with database.write() as session:
        used = exists().where(Run.project_id == Project.id)
        affected(session, delete(Project).where(Project.id.in_(PROJECTS), ~used))
        affected(session, delete(Worker).where(Worker.id.endswith(GENERATED)))
    return len(ids)


def _put(session: Session, plan: PlannedRun, runs: Path | None, last: int | None) -> None:
    config = plan.config.model_dump(mode="json")
    first = 0 if last is None else max(plan.step - last, 0)
    artifacts = [runs / plan.id / "artifacts" / name for name in plan.leaves] if runs else []

    def told(start: float) -> Iterator[AnyEvent]:
        steps = None if plan.state == "succeeded" else plan.step
        return telemetry.events(config, steps, start, artifacts, first, plan.says, plan.more_metrics) if plan.step else iter(())

    start = plan.created_at + WAITED_SECONDS
    if plan.until is not None:
        start = plan.until - max((event.time for event in told(0.0)), default=0.0)
    _accept(session, plan, config, start)
    time, seq, events = start, -1, told(start)
    while part := list(islice(events, EVENTS_AT_ONCE)):
        time, seq = part[-1].time, tell(session, plan.id, part, seq)
        if len(part) == EVENTS_AT_ONCE:
            session.commit()
    _end(session, plan, time, seq)


def _accept(session: Session, plan: PlannedRun, config: dict[str, Any], start: float) -> None:
    """The run's row, what it is found by, and its attempt."""
    has_started = plan.state != "queued"
    run = Run(
        id=plan.id,
        project_id=plan.project_id,
        name=plan.config.name,
        config=config,
        seed=plan.config.seed,
        tags=list(plan.tags),
        notes=plan.notes,
        created_at=start - WAITED_SECONDS,
        queued_at=start - WAITED_SECONDS,
        started_at=start if has_started else None,
        claimed_at=start if has_started else None,
        owner=plan.owner,
        parent_id=plan.parent_id,
        gpus=plan.config.gpus,
        gpu_only=plan.config.gpu_only,
        steps=plan.config.algorithm.steps,
        attempt=int(has_started),
        lease_expires_at=NEVER if plan.state in ACTIVE else None,
        starting_up={"phase": "starting_workers", "since": start, "done": 0, "total": 0} if plan.state == "starting" else None,
        tidied_at=NEVER,
    )
    session.add(run)
    session.flush()
    search_index.index_run(session, run)
    if has_started:
        where = {"worker_id": worker_hosts.worker_id(worker_hosts.host(plan.config)), "environment": worker_hosts.environment(plan.config)}
        session.add(Attempt(run_id=run.id, number=1, started_at=start, **where))


def last_seq(database: Database, run_id: str) -> int:
    """The number of the last event that is told of a run."""
    with database.read() as session:
        return session.scalars(select(Run.events_seq).where(Run.id == run_id)).one()


def tell(session: Session, run_id: str, events: Sequence[AnyEvent], seq: int) -> int:
    """Writes the events after that of number ``seq``; the number of the last one."""
    writer = EventRowWriter(session, run_id, notifies=False)
    for number, event in enumerate(events, seq + 1):
        writer.add(event.model_copy(update={"seq": number}))
    writer.close(seq + len(events))
    return seq + len(events)


def _end(session: Session, plan: PlannedRun, time: float, seq: int) -> None:
    """How it ended, if it has."""
    ended = None if plan.state in ACTIVE else time
    attempt: dict[str, Any] = {"state": ATTEMPTS.get(plan.state, plan.state), "finished_at": ended}
    changes: dict[str, Any] = {"finished_at": ended} if plan.state in TERMINAL_STATES else {}
    if plan.state == "failed":
        reason, text = random.Random(plan.id).choice(texts.FAILURES)
        error = text.format(step=plan.step)
        changes |= {"error": error, "error_code": reason}
        attempt |= {"error": error, "exit_code": 2}
        tell(session, plan.id, [Log(time=time, level="error", code=reason or "", message=error)], seq)
    affected(session, update(Run).where(Run.id == plan.id).values(state=plan.state, **changes))
    affected(session, update(Attempt).where(Attempt.run_id == plan.id).values(**attempt))
