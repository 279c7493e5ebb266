"""An attempt's life in SQL: claim, renew, settle. Every write is fenced by the attempt's number."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from backend.database import affected
from backend.models import Attempt, LogLine, Run
from backend.services.pagination import page
from backend.services.queue.scheduling import QueueLimits, next_fitting
from backend.services.runs.lifecycle import ACTIVE, transition
from longtail.schemas.runs import RunState

CLAIM_LOCK = 0x4C54  # any number that no other advisory lock of the database has
NO_GPUS: Mapping[str, str] = {}


class LeaseLostError(Exception):
    """Another worker may have the run by now: stop, and write nothing more about it."""


@dataclass(frozen=True)
class Claim:
    run_id: str
    attempt: int
    config: dict[str, Any]
    resumes: bool = False
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended. "lost": through no fault of the run (its worker or engine was killed); "handed_over": it was asked to stop,
    as its worker shuts down or the user wants a pause."""

    state: Literal["succeeded", "failed", "cancelled", "lost", "handed_over"]
    exit_code: int | None = None
    error: str | None = None
    error_code: str | None = None


def claim_next(
    session: Session,
    worker_id: str,
    labels: Collection[str],
    limits: QueueLimits,
    lease_seconds: float,
    gpus: Mapping[str, str] = NO_GPUS,
) -> Claim | None:
    """Takes the run whose turn it is for this worker, which offers ``gpus``; None if there is none that it may carry now."""
    if session.get_bind().dialect.name == "postgresql":  # claims go one by one, or two could take a limit's last place, or one GPU
        session.execute(select(func.pg_advisory_xact_lock(CLAIM_LOCK)))
    found = next_fitting(session, labels, gpus, limits, time.time())
    if found is None or (claimed := claim(session, found[0], worker_id, lease_seconds, found[1])) is None:
        return None
    wanted = session.get_one(Run, claimed.run_id).gpus
    if gpus and not claimed.gpus and wanted:
        message = f"its worker offers fewer GPUs ({len(gpus)}) than the run takes ({wanted}): it computes on the CPU; lower cluster.workers"
        add_log_line(session, claimed.run_id, "warning", "gpus", f"{message}, or set cluster.device to cuda to wait for another worker")
    return claimed


def claim(session: Session, run_id: str, worker_id: str, lease_seconds: float, gpus: Sequence[str] = ()) -> Claim | None:
    """Takes a queued run for this worker, with these of its GPUs; None if it is not to be had any more."""
    now = time.time()
    changes: dict[str, Any] = {"attempt": Run.attempt + 1, "started_at": func.coalesce(Run.started_at, now), "claimed_at": now}
    changes["starting_up"] = None  # what the attempt before it was at
    if not transition(session, run_id, "starting", lease_expires_at=now + lease_seconds, **changes):
        return None
    run = session.get_one(Run, run_id)
    session.add(Attempt(run_id=run_id, number=run.attempt, worker_id=worker_id, gpus=list(gpus)))
    return Claim(run_id, run.attempt, run.config, run.attempt > 1 or run.resumed_step is not None, tuple(gpus))


def renew(session: Session, claim: Claim, lease_seconds: float) -> None:
    """LeaseLostError also while the run is just being taken away, and has no lease."""
    held = (Run.attempt == claim.attempt, Run.state.in_(ACTIVE), Run.lease_expires_at.is_not(None))
    statement = update(Run).where(Run.id == claim.run_id, *held)
    if not affected(session, statement.values(lease_expires_at=time.time() + lease_seconds)):
        raise LeaseLostError


def attempts(session: Session, run_id: str, limit: int, cursor: str | None) -> tuple[Sequence[Attempt], str | None]:
    """First to last."""
    return page(session, select(Attempt).where(Attempt.run_id == run_id), [Attempt.number], limit, cursor, rises=True)


def record_process(session: Session, claim: Claim, pid: int, pid_started: int | None, environment: dict[str, Any] | None = None) -> None:
    """Notes the attempt's process, and what it runs in."""
    mine = (Attempt.run_id == claim.run_id, Attempt.number == claim.attempt, Attempt.state == "running")
    if not affected(session, update(Attempt).where(*mine).values(pid=pid, pid_started=pid_started, environment=environment)):
        raise LeaseLostError


def settle(session: Session, run_id: str, attempt: int, outcome: Outcome, max_retries: int, retry_seconds: float = 0.0) -> RunState | None:
    """Closes the attempt and moves its run on; the run's new state, or None if the attempt was not the current one any more. A lost one
    is resumed at once, but waits for ``retry_seconds`` after a second loss in a row, and as long again after each further one: what fails
    now may soon be well."""
    run = session.get_one(Run, run_id, with_for_update=True)
    if run.state not in ACTIVE:  # somebody else has settled it, and a paused run must not go on
        return None
    state, changes = _verdict(run, outcome, max_retries)
    pause = retry_seconds * (changes.get("losses", 1) - 1) if state == "queued" else 0.0
    if pause:
        changes["start_after"] = time.time() + pause
    if not transition(session, run_id, state, fence=attempt, **changes):
        return None
    record = session.get_one(Attempt, (run_id, attempt))
    record.state, record.exit_code, record.error = outcome.state, outcome.exit_code, outcome.error
    record.finished_at = time.time()
    if state == "queued":
        soon = f" in {pause:.0f} s" if pause else ""
        message = f"attempt {attempt} ended ({outcome.error}); resuming from the last checkpoint{soon}"
        add_log_line(session, run_id, "warning", outcome.state, message)
    if state == "paused":
        add_log_line(session, run_id, "info", "paused", f"attempt {attempt} ended ({outcome.error}); paused")
    return state


def _verdict(run: Run, outcome: Outcome, max_retries: int) -> tuple[RunState, dict[str, Any]]:
    """A run that has come further, by a checkpoint or a round of pretraining, since it was lost last may be lost as often again."""
    if outcome.state in ("succeeded", "cancelled"):
        return outcome.state, {}
    if outcome.state == "failed":
        return "failed", {"error": outcome.error, "error_code": outcome.error_code}
    if run.cancel_requested:
        return "cancelled", {}
    goes_on: RunState = "paused" if run.pause_requested else "queued"
    if outcome.state == "handed_over":
        return goes_on, {}
    round = run.pretraining["round"] if run.pretraining else 0
    losses = 1 if run.checkpoint_step > run.lost_step or round > run.lost_round else run.losses + 1
    counted = {"losses": losses, "lost_step": run.checkpoint_step, "lost_round": max(round, run.lost_round)}
    if losses <= max_retries:
        return goes_on, counted
    error = f"given up after {losses} lost attempts; the last: {outcome.error}"
    return "failed", counted | {"error": error, "error_code": outcome.error_code or "lost"}


def add_log_line(session: Session, run_id: str, level: str, code: str, message: str) -> None:
    """A line of the platform itself in the run's log."""
    session.add(LogLine(run_id=run_id, source="platform", time=time.time(), level=level, code=code, message=message))
