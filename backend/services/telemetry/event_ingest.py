"""events.jsonl -> SQL, exactly once: the file position moves in the transaction that writes the rows."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from backend.database import Database, affected, storable_text, upsert
from backend.models import (
    Attempt,
    Decoding,
    DrafterSession,
    LogLine,
    Metric,
    PretrainingRound,
    Rollout,
    Run,
    Sample,
    Speculation,
    Stepped,
    WorkerSpan,
)
from backend.services.artifacts import registry
from backend.services.runs import search_index
from backend.services.runs.attempts import LeaseLostError
from backend.services.runs.lifecycle import transition
from backend.services.telemetry import metric_storage
from backend.services.telemetry.event_rows import (
    Rows,
    event_rows,
    log_line,
    pretraining_round,
    run_summary,
    starting_up,
    step_metrics,
    unmeasured,
)
from backend.services.telemetry.falling_figures import fallen_reward_line
from backend.services.telemetry.run_statistics import RECENT_FIGURES, recent_figures
from backend.services.webhooks.notifications import queue_deliveries
from engine.events import (
    AnyEvent,
    ArtifactSaved,
    CheckpointSaved,
    DrafterPretrained,
    Log,
    RunFinished,
    RunStarted,
    RunStopped,
    StartingUp,
    StepFinished,
    parse_line,
)

BATCH_BYTES = 2**20
EVENTS_OF_ALARMS = {"reward_fell": ("run.reward_fell",), "acceptance_collapsed": ("run.acceptance_collapsed",)}
"""What webhooks hear of an alarm of this code, beside run.alarm."""
STEPPED: tuple[type[Stepped], ...] = (Metric, Rollout, Speculation, WorkerSpan, Decoding, DrafterSession, Sample)


class EventIngestor:
    """Follows one run's events.jsonl on behalf of one attempt. A line that is no event becomes an alarm.

    ``notifies``: webhooks hear of alarms. A retry begins with the events of the run before it, of which they have heard already: those
    are told by their times, as far as the clocks of hosts agree.

    ``began`` tells whether the attempt has come to start its workers; ``last_error``, ``finished`` and ``stopped`` what it said last: an
    error log, whether its last event was run_finished, and the step of a run_stopped there.
    """

    def __init__(self, database: Database, run_id: str, attempt: int, path: Path, notifies: bool = True) -> None:
        self._database, self._run_id, self._attempt, self._path, self._notifies = database, run_id, attempt, path, notifies
        with database.read() as session:
            run = session.get_one(Run, run_id)
            self._offset, self._seq = run.events_offset, run.events_seq
        self._is_unsure = False
        self._told: float | None = None
        self._seq_before = -1
        self.began = False
        self.last_error: Log | None = None
        self.finished = False
        self.stopped: int | None = None

    def go_back(self) -> None:
        """To where the file ends, if that lacks lines that are ingested already: a crash of the machine may take what was not on its disk
        yet, and another host may not have the file. For who begins, as the next lines come there. LeaseLostError as in ``drain``."""
        self._be_sure()
        end, seq = self._end()
        self._seq_before = seq
        if end < self._offset:
            with self._writing() as session:
                self._move(session, end)
                affected(session, update(Run).where(Run.id == self._run_id).values(events_seq=seq))
            self._offset, self._seq = end, seq

    def drain(self, keep_lease: Callable[[], object] = lambda: None, seconds: float = inf) -> bool:
        """Ingests the complete lines that are there by now. False if that took longer than ``seconds`` and some are left.
        LeaseLostError if the attempt was fenced off. ``keep_lease`` is called in between: a retry of a long run begins with all that was
        told before."""
        end = time.monotonic() + seconds
        while self._pull():
            keep_lease()
            if time.monotonic() > end:
                return not self._read()
        return True

    def _pull(self) -> bool:
        self._be_sure()
        lines = self._read()
        if not lines:
            return False
        pending = [self._parse(line) for line in lines]
        offset = self._offset + sum(len(line) for line in lines)
        seq = self._seq
        self._note(pending)
        with self._writing() as session:
            self._move(session, offset)
            writer = EventRowWriter(session, self._run_id, self._notifies)
            told = self._told
            for event in pending:
                if isinstance(event, str):
                    seq += 1
                    writer.alarm(event, told)
                elif event.seq > seq:
                    seq, told = event.seq, event.time
                    writer.add(event)
                    if isinstance(event, RunStarted):
                        transition(session, self._run_id, "running", fence=self._attempt)
            writer.close(seq)
        self._offset, self._seq, self._told = offset, seq, told
        return True

    def _note(self, pending: Sequence[AnyEvent | str]) -> None:
        """What the attempt says. Before it is written, as what may have been written is not read again."""
        for event in pending:
            if isinstance(event, StartingUp) and event.phase == "starting_workers":
                self.last_error = None  # what an attempt says first: errors are of earlier ones, which a retry inherits
                self.began = event.seq > self._seq_before
            elif isinstance(event, Log) and event.level == "error":
                self.last_error = event
        last = pending[-1]
        self.finished = isinstance(last, RunFinished)
        self.stopped = last.step if isinstance(last, RunStopped) else None

    @contextmanager
    def _writing(self) -> Iterator[Session]:
        """A transaction. A commit that gets no answer may have been made all the same."""
        self._is_unsure = True
        with self._database.write() as session:
            yield session
        self._is_unsure = False

    def _be_sure(self) -> None:
        if self._is_unsure:
            with self._database.read() as session:
                run = session.get_one(Run, self._run_id)
                if run.attempt == self._attempt:
                    self._offset, self._seq = run.events_offset, run.events_seq

    def _read(self) -> list[bytes]:
        """Whole lines from the current position on, at least one if there is one, about BATCH_BYTES of them."""
        if not self._path.exists() or self._path.stat().st_size <= self._offset:
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            lines = file.readlines(BATCH_BYTES)
        return [line for line in lines if line.endswith(b"\n")]

    def _end(self) -> tuple[int, int]:
        """Where the last whole line ends, and its ``seq``."""
        end, seq = 0, -1
        if self._path.exists():
            with self._path.open("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        end, seq = end + len(line), seq + 1
        return end, seq

    def _move(self, session: Session, offset: int) -> None:
        here = (Run.id == self._run_id, Run.attempt == self._attempt, Run.events_offset == self._offset)
        if not affected(session, update(Run).where(*here).values(events_offset=offset)):
            raise LeaseLostError

    def _parse(self, line: bytes) -> AnyEvent | str:
        try:
            return parse_line(line.decode("utf-8"))
        except (ValidationError, UnicodeDecodeError) as error:
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            return f"a line of {self._path.name} is not an event ({reason}): {line[:120].decode('utf-8', 'replace').strip()}"


class EventRowWriter:
    """Gathers the rows of a batch; a restart within it first writes, then takes back the steps that will be done again."""

    def __init__(self, session: Session, run_id: str, notifies: bool) -> None:
        self._session, self._run_id, self._notifies = session, run_id, notifies
        self._rows: Rows = {}
        self._progress: dict[str, Any] = {}
        self._last_step: StepFinished | None = None
        facts = select(Run.config, Run.starting_up, Run.created_at, Run.resumed_step).where(Run.id == run_id)
        config, self._starting, created_at, resumed_step = session.execute(facts).one()
        self._told_before = 0.0 if resumed_step is None else created_at
        self._unmeasured = unmeasured(config)

    def add(self, event: AnyEvent) -> None:
        if isinstance(event, RunStarted):
            self._flush()
            for model in STEPPED:
                affected(self._session, delete(model).where(model.run_id == self._run_id, model.step >= event.first_step))
            metric_storage.forget_points(self._session, self._run_id, event.first_step)
            self._progress |= {"step": event.first_step, "steps": event.steps, "checkpoint_step": event.first_step - 1}
            self._engine(event)
        if isinstance(event, CheckpointSaved):
            self._progress["checkpoint_step"] = event.step
        if isinstance(event, DrafterPretrained):
            self._pretrained(event)
        if isinstance(event, StartingUp):
            self._progress["starting_up"] = self._starting = starting_up(event, self._starting)
        if isinstance(event, StepFinished):
            self._last_step = event
            self._progress |= {"step": event.step + 1, "starting_up": None, "summary": run_summary(step_metrics(event, self._unmeasured))}
        if isinstance(event, ArtifactSaved):
            registry.record_saved(self._session, self._run_id, event)
        for table, new in event_rows(self._run_id, event, self._unmeasured).items():
            self._rows.setdefault(table, []).extend(new)

    def _pretrained(self, event: DrafterPretrained) -> None:
        """Rounds beyond it are of an attempt that could not be gone on with. The accept length is what is expected, until steps tell."""
        beyond = (PretrainingRound.run_id == self._run_id, PretrainingRound.round > event.round)
        affected(self._session, delete(PretrainingRound).where(*beyond))
        latest = pretraining_round(event)
        summary = {name: latest[name] for name in ("accept_length", "drafter_version")} | {"accept_recent": latest["accept_length"]}
        self._progress |= {"pretraining": latest, "starting_up": None, "summary": summary}

    def _engine(self, event: RunStarted) -> None:
        """Part of what the attempt runs in."""
        newest = select(Run.attempt).where(Run.id == self._run_id).scalar_subquery()
        attempt = self._session.scalars(select(Attempt).where(Attempt.run_id == self._run_id, Attempt.number == newest)).one_or_none()
        if attempt and attempt.environment and event.rollout_engine:
            told = storable_text(f"{event.rollout_engine}: {event.engine_reason}")
            attempt.environment = attempt.environment | {"rollout_engine": told}

    def alarm(self, message: str, told: float | None) -> None:
        """``told``: when the event before it was, if that is known."""
        self._rows.setdefault(LogLine, []).append(log_line(self._run_id, told or time.time(), "alarm", "bad_event", message))

    def close(self, seq: int) -> None:
        self._flush()
        if "summary" in self._progress:
            if self._last_step is not None:
                self._sum_up(self._last_step)
            search_index.index_summary(self._session, self._run_id, self._progress["summary"])
        affected(self._session, update(Run).where(Run.id == self._run_id).values(events_seq=seq, **self._progress))

    def _sum_up(self, last: StepFinished) -> None:
        self._progress["summary"] |= dict.fromkeys(RECENT_FIGURES) | recent_figures(self._session, self._run_id)
        if self._notifies and (line := fallen_reward_line(self._session, self._run_id, last.step, last.time)):
            self._rows[LogLine] = [line]
            self._flush()

    def _flush(self) -> None:
        for line in self._rows.get(LogLine, ()) if self._notifies else ():
            if line["level"] == "alarm" and line["time"] >= self._told_before:
                told = {name: line[name] for name in ("step", "code", "message")}
                for event in ("run.alarm", *EVENTS_OF_ALARMS.get(line["code"], ())):
                    queue_deliveries(self._session, self._run_id, event, alarm=told)
        for table, new in self._rows.items():
            if table is Metric:
                metric_storage.write_points(self._session, self._run_id, new)
            else:
                upsert(self._session, table, new)
        self._rows = {}


def rebuild(database: Database, run_id: str, path: Path) -> None:
    """Makes a finished run's telemetry again from its events.jsonl; artifacts keep their ids."""
    with database.write() as session:
        for model in STEPPED:
            affected(session, delete(model).where(model.run_id == run_id))
        affected(session, delete(PretrainingRound).where(PretrainingRound.run_id == run_id))
        metric_storage.forget_points(session, run_id, 0)
        affected(session, delete(LogLine).where(LogLine.run_id == run_id, LogLine.source == "engine"))
        affected(
            session, update(Run).where(Run.id == run_id).values(events_seq=-1, events_offset=0, step=0, pretraining=None, starting_up=None)
        )
        attempt = session.get_one(Run, run_id).attempt
    EventIngestor(database, run_id, attempt, path, notifies=False).drain()
