"""Which run has which GPU: one that is under way has its GPUs to itself, whichever worker of the host offers them, too."""

from collections.abc import Mapping

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from backend.models import Attempt, Run, Worker
from backend.services.runs.lifecycle import CARRIED


def free_gpus(session: Session, offered: Mapping[str, str]) -> list[str]:
    """The names of those that no run has."""
    taken = taken_gpus(session) if offered else set()
    return [name for name, gpu in offered.items() if gpu not in taken]


def taken_gpus(session: Session, held_by: ColumnElement[bool] = CARRIED) -> set[str]:
    """Of all hosts, by the runs ``held_by`` stands for. A lost attempt has its own until it is settled, by when its processes are gone."""
    current = and_(Attempt.run_id == Run.id, Attempt.number == Run.attempt)
    held = select(Attempt.gpus, Worker.gpus.label("offered")).join(Run, current).join(Worker, Worker.id == Attempt.worker_id).where(held_by)
    return {row.offered[name] for row in session.execute(held) for name in row.gpus}
