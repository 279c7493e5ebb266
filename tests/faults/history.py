"""What really happened to each run, written by the database itself, and whether that was right."""

import hashlib
import json
from collections import Counter

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from backend.database import Database
from backend.models import Artifact, Attempt, Delivery, LogLine, Metric, Run
from backend.services.artifacts.registry import content
from backend.services.runs.lifecycle import PREDECESSORS
from backend.settings import Settings
from backend.storage.open_store import open_store
from engine.events import parse_line
from longtail.schemas.runs import TERMINAL_STATES

TABLE = "CREATE TABLE history (run_id TEXT, before TEXT, after TEXT, attempt INTEGER)"
INSERT = "INSERT INTO history VALUES (NEW.id, OLD.state, NEW.state, NEW.attempt)"
TRIGGERS = {
    "sqlite": [f"CREATE TRIGGER witness AFTER UPDATE OF state ON runs WHEN OLD.state != NEW.state BEGIN {INSERT}; END"],
    "postgresql": [
        f"CREATE FUNCTION witness() RETURNS trigger AS $$ BEGIN {INSERT}; RETURN NEW; END $$ LANGUAGE plpgsql",
        "CREATE TRIGGER witness AFTER UPDATE ON runs FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION witness()",
    ],
}


def watch(database: Database) -> None:
    """From now on every change of a run's state is on record, whoever makes it."""
    with database.write() as session:
        for statement in (TABLE, *TRIGGERS[session.get_bind().dialect.name]):
            session.execute(text(statement))


def check(database: Database, settings: Settings, run_id: str) -> None:
    """AssertionError unless the run's story is that of one run: once accepted, carried by one attempt at a time, ended once."""
    with database.read() as session:
        run = session.get_one(Run, run_id)
        changes = session.execute(text("SELECT before, after, attempt FROM history WHERE run_id = :id"), {"id": run_id}).all()
        attempts = session.scalars(select(Attempt).where(Attempt.run_id == run_id).order_by(Attempt.number)).all()
        alarms = session.scalars(select(LogLine.message).where(LogLine.run_id == run_id, LogLine.code == "bad_event")).all()
        _states(run, [tuple(change) for change in changes])
        _attempts(run, list(attempts))
        _told(session, run, [after for _, after, _ in changes])
        points = session.execute(select(Metric.key, Metric.step, Metric.value).where(Metric.run_id == run_id))
        _series(run, {(key, step): value for key, step, value in points})
        _artifacts(session, settings, run, list(session.scalars(select(Artifact).where(Artifact.run_id == run_id))))
    assert alarms == []
    _events(settings, run)


def _states(run: Run, changes: list[tuple[str, str, int]]) -> None:
    state = "queued"
    for before, after, _ in changes:
        assert before == state
        assert before in PREDECESSORS[after], f"{before} -> {after}"  # type: ignore[index]
        state = after
    assert state == run.state
    assert state in TERMINAL_STATES, "no run is stuck"
    assert sum(after in TERMINAL_STATES for _, after, _ in changes) == 1, "a terminal state is final"
    starts = [attempt for _, after, attempt in changes if after == "starting"]
    assert starts == list(range(1, run.attempt + 1)), "every claim is a new attempt"


def _attempts(run: Run, attempts: list[Attempt]) -> None:
    assert [attempt.number for attempt in attempts] == list(range(1, run.attempt + 1))
    assert not [attempt.number for attempt in attempts if attempt.state == "running"]
    succeeded = [attempt.number for attempt in attempts if attempt.state == "succeeded"]
    assert succeeded == ([run.attempt] if run.state == "succeeded" else [])


def _told(session: Session, run: Run, states: list[str]) -> None:
    """A message to the webhook for each change, and one for the beginning; none doubled."""
    messages = [json.loads(body)["data"]["run"] for body in session.scalars(select(Delivery.body))]
    assert Counter(each["state"] for each in messages if each["id"] == run.id) == Counter(["queued", *states])


def _series(run: Run, points: dict[tuple[str, int], float | None]) -> None:
    """No gap, nothing double (the primary key sees to that), and the attempts one after the other."""
    done = run.steps if run.state == "succeeded" else run.step
    keys = ("reward_mean", "attempt", "phase/rollout", "step_seconds")
    assert sorted(points) == sorted((key, step) for key in keys for step in range(done))
    assert [points["reward_mean", step] for step in range(done)] == [step / 8 for step in range(done)]
    carriers = [points["attempt", step] or 0 for step in range(done)]
    assert carriers == sorted(carriers), "what an earlier attempt wrote later is visible"


def _events(settings: Settings, run: Run) -> None:
    """The file is whole, and all of it is in SQL."""
    file = settings.run_folder(run.id) / "events.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    events = [parse_line(line) for line in lines if line.endswith("}")]
    assert [event.seq for event in events] == list(range(len(events)))
    writers = [event.metrics["attempt"] for event in events if event.kind == "step"]
    assert writers == sorted(writers), "two attempts wrote at once"
    if run.state == "succeeded":
        assert (run.events_seq, events[-1].kind) == (len(events) - 1, "run_finished")
        assert run.events_offset == file.stat().st_size
        assert len(lines) == len(events)


def _artifacts(session: Session, settings: Settings, run: Run, artifacts: list[Artifact]) -> None:
    assert len(artifacts) <= 1
    assert run.state != "succeeded" or artifacts
    for artifact in artifacts:
        found = content(session, settings, open_store(settings), artifact.id)
        assert hashlib.sha256(b"".join(found.read(0, found.size))).hexdigest() == artifact.sha256


def story(database: Database, settings: Settings, run_id: str) -> str:
    """For a failed check: what is on record."""
    with database.read() as session:
        run = session.get_one(Run, run_id)
        changes = session.execute(text("SELECT before, after, attempt FROM history WHERE run_id = :id"), {"id": run_id}).all()
        attempts = session.scalars(select(Attempt).where(Attempt.run_id == run_id).order_by(Attempt.number)).all()
        told = [f"{attempt.number}: {attempt.state} ({attempt.error})" for attempt in attempts]
    file = settings.run_folder(run_id) / "events.jsonl"
    kinds = [json.loads(line)["kind"] for line in file.read_text().splitlines()] if file.exists() else []
    return f"{run.name} {run_id}: {run.state} at step {run.step} of {run.steps}\n{changes}\n{told}\n{kinds}"
