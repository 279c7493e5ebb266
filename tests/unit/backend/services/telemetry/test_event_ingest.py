from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from engine_events import STEPS, begin, started, step, write
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from backend.database import Database
from backend.models import Artifact, Attempt, Base, Decoding, LogLine, Metric, Rollout, Run, Sample, Speculation, WorkerSpan
from backend.services.runs.attempts import LeaseLostError
from backend.services.telemetry import step_rows
from backend.services.telemetry.event_ingest import EventIngestor, rebuild
from backend.services.telemetry.step_rows import StepRange
from engine import events
from longtail.schemas.runs import Run as RunReply


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


@pytest.fixture
def ingestor(database: Database, run_id: str, path: Path) -> EventIngestor:
    return begin(database, run_id, path)


def everything(database: Database) -> dict[str, list[Any]]:
    """All telemetry, without the ids that each ingestion gives anew."""
    with database.read() as session:
        tables: list[type[Base]] = [Metric, Rollout, WorkerSpan, Decoding, Speculation, Sample, LogLine, Artifact]
        return {
            table.__tablename__: sorted(
                repr([getattr(row, column.name) for column in table.__table__.columns if column.name != "id"])
                for row in session.scalars(select(table))
            )
            for table in tables
        }


def test_events_become_rows(database: Database, run_id: str, path: Path, ingestor: EventIngestor) -> None:
    write(path, started(), *step(0), *step(1, reward=0.75))
    ingestor.drain()
    with database.read() as session:
        run = session.get_one(Run, run_id)
        assert (run.state, run.step, run.steps) == ("running", 2, STEPS)
        assert run.summary["reward_mean"] == 0.75
        assert run.summary["rollout_share"] == 0.5
        assert run.summary["harvest"] == 0.75
        assert run.summary["loss"] is None, "not a number is told as null"
        assert not any(name.startswith("system/") for name in run.summary)
        decoding = session.get_one(Decoding, (run_id, 1, 0))
        assert decoding.points == [[0.0, 4, "off"], [0.75, 1, "mixed"], [1.0, 0, "off"]]
        assert decoding.marks == [[1.0, "stopped", 3]]
        assert session.scalars(select(Metric.value).where(Metric.key == "reward_mean").order_by(Metric.step)).all() == [0.5, 0.75]
        rollout = session.get_one(Rollout, (run_id, 1))
        assert (rollout.lengths, rollout.truncated, rollout.p50, rollout.p75, rollout.p90, rollout.max) == ([4, 2, 8, 6], 1, 4, 6, 8, 8)
        speculation = session.get_one(Speculation, (run_id, 0))
        assert (speculation.arms[0]["accepted"], speculation.untrained) == (9, "no worker was idle")
        assert (speculation.ngram_drafted_by_position, speculation.ngram_accepted_by_position) == ([1, 0], [1, 0])
        assert session.scalars(select(Sample.response)).all() == ["a␀b", "a␀b"]
        assert session.scalars(select(Sample.pieces)).all() == [[["eagle", 2, 2], ["target", 1, 1]]] * 2


def test_the_engine_and_why_are_told_of_the_attempt_and_in_the_log(
    database: Database, run_id: str, path: Path, ingestor: EventIngestor
) -> None:
    with database.write() as session:
        attempt = session.scalars(select(Attempt).where(Attempt.run_id == run_id)).one()
        attempt.environment = {"host": "a"}
    choice = {"rollout_engine": "native", "engine_reason": "this machine has no CUDA device"}
    write(path, started().model_copy(update=choice))
    ingestor.drain()
    with database.read() as session:
        attempt = session.scalars(select(Attempt).where(Attempt.run_id == run_id)).one()
        assert attempt.environment == {"host": "a", "rollout_engine": "native: this machine has no CUDA device"}
        lines = session.scalars(select(LogLine.message)).all()
        assert any(line.endswith("; native generates the responses: this machine has no CUDA device") for line in lines)


def test_what_was_told_can_be_asked_for_by_step(database: Database, run_id: str, path: Path, ingestor: EventIngestor) -> None:
    write(path, started(), *step(0), *step(1), *step(2))
    ingestor.drain()
    with database.read() as session:
        for model in (Rollout, WorkerSpan, Decoding, Speculation):
            for wanted, found in ((StepRange(since=0), [1, 2]), (StepRange(since=0, until=1), [1]), (StepRange(every=2), [0, 2])):
                rows, after = step_rows.rows_of_steps(session, model, run_id, wanted, 10)
                assert ([row.step for row in rows], after) == (found, None)


def test_ingesting_again_changes_nothing(database: Database, run_id: str, path: Path, ingestor: EventIngestor) -> None:
    write(path, started(), *step(0))
    ingestor.drain()
    before = everything(database)
    ingestor.drain()
    EventIngestor(database, run_id, 1, path).drain()
    assert everything(database) == before


def test_a_doubled_line_counts_once(database: Database, path: Path, ingestor: EventIngestor) -> None:
    write(path, started(), *step(0))
    path.write_text("".join(line * 2 for line in path.read_text().splitlines(keepends=True)))
    ingestor.drain()
    with database.read() as session:
        assert len(session.scalars(select(WorkerSpan)).all()) == 1


def test_an_unfinished_line_waits(database: Database, run_id: str, path: Path, ingestor: EventIngestor) -> None:
    write(path, started(), *step(0))
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    ingestor.drain()
    with database.read() as session:
        assert session.get_one(Run, run_id).step == 0
        assert session.scalars(select(LogLine).where(LogLine.level == "alarm")).all() == []
    path.write_bytes(whole)
    ingestor.drain()
    with database.read() as session:
        assert session.get_one(Run, run_id).step == 1


@pytest.mark.parametrize("broken", [b"{not json}\n", b'{"kind":"from the future","seq":1}\n', b"\xff\xfe\n", b"\n"])
def test_a_broken_line_is_an_alarm_and_the_rest_counts(
    database: Database, run_id: str, path: Path, ingestor: EventIngestor, broken: bytes
) -> None:
    write(path, started())
    with path.open("ab") as file:
        file.write(broken)
    write(path, *step(0))
    ingestor.drain()
    with database.read() as session:
        assert session.get_one(Run, run_id).step == 1
        alarm = session.scalars(select(LogLine).where(LogLine.level == "alarm")).one()
        assert alarm.code == "bad_event"


def test_a_resumed_attempt_takes_back_the_steps_that_it_does_again(
    database: Database, run_id: str, path: Path, ingestor: EventIngestor
) -> None:
    write(path, started(), *step(0), *step(1, reward=0.1), *step(2, reward=0.1))
    ingestor.drain()
    write(path, started(first_step=1))
    ingestor.drain()
    with database.read() as session:
        assert session.get_one(Run, run_id).step == 1
        for table in (Metric, Rollout, WorkerSpan, Decoding, Speculation, Sample):
            assert set(session.scalars(select(table.step))) == {0}
    write(path, *step(1, reward=0.9))
    ingestor.drain()
    with database.read() as session:
        assert session.scalars(select(Metric.value).where(Metric.key == "reward_mean").order_by(Metric.step)).all() == [0.5, 0.9]
        assert len(session.scalars(select(WorkerSpan)).all()) == 2


@pytest.mark.parametrize("kept", [0, 3, 5])
def test_lines_that_a_crash_of_the_machine_took_do_not_hide_those_of_the_next_attempt(
    database: Database, run_id: str, path: Path, ingestor: EventIngestor, kept: int
) -> None:
    write(path, started(), *step(0), *step(1))
    ingestor.drain()
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:kept]) + b"\0" * 9)
    again = EventIngestor(database, run_id, 1, path)
    again.go_back()
    write(path, started(1), *step(1, reward=0.75), events.RunFinished(steps=STEPS))
    again.drain()
    again.go_back()
    assert again.finished
    with database.read() as session:
        assert session.get_one(Run, run_id).summary["reward_mean"] == 0.75
        assert session.scalars(select(Metric.value).where(Metric.key == "reward_mean").order_by(Metric.step)).all() == [0.5, 0.75]


def test_who_was_fenced_off_writes_nothing(database: Database, run_id: str, path: Path, ingestor: EventIngestor) -> None:
    write(path, started(), *step(0))
    with database.write() as session:
        session.get_one(Run, run_id).attempt = 2
    with pytest.raises(LeaseLostError):
        ingestor.drain()
    assert everything(database)["metrics"] == []


def test_an_artifact_that_is_saved_again_before_it_is_stored_keeps_its_id(database: Database, path: Path, ingestor: EventIngestor) -> None:
    for content in ("a", "b"):
        write(path, events.ArtifactSaved(name="drafter.zip", type="drafter", path="artifacts/drafter.zip", bytes=1, sha256=content * 64))
        ingestor.drain()
        with database.read() as session:
            artifact = session.scalars(select(Artifact)).one()
            assert artifact.sha256 == content * 64
            if content == "a":
                first = artifact.id
    assert artifact.id == first


def test_losing_sql_loses_nothing(database: Database, run_id: str, path: Path, ingestor: EventIngestor) -> None:
    write(path, started(), *step(0), *step(1), events.Log(level="info", message="hello"), started(first_step=1), *step(1), *step(2))
    ingestor.drain()
    before = everything(database)
    rebuild(database, run_id, path)
    assert everything(database) == before


def test_the_end_is_told(path: Path, ingestor: EventIngestor) -> None:
    write(path, started(), events.Log(level="error", code="data", message="empty"))
    ingestor.drain()
    assert ingestor.last_error is not None
    assert (ingestor.last_error.code, ingestor.finished) == ("data", False)
    write(path, events.RunFinished(steps=STEPS))
    ingestor.drain()
    assert ingestor.finished


def test_errors_and_starts_of_attempts_before_are_not_those_of_this_one(path: Path, ingestor: EventIngestor) -> None:
    """A retry's file begins with what the run before it told."""
    write(path, started(), events.Log(level="error", code="worker_lost", message="gone"), events.StartingUp(phase="starting_workers"))
    ingestor.go_back()
    ingestor.drain()
    assert (ingestor.last_error, ingestor.began) == (None, False)
    write(path, events.StartingUp(phase="starting_workers"))
    ingestor.drain()
    assert ingestor.began


def test_a_start_tells_what_is_under_way(database: Database, run_id: str, path: Path, ingestor: EventIngestor) -> None:
    def at() -> tuple[str, float, int, int] | None:
        with database.read() as session:
            told = RunReply.model_validate(session.get_one(Run, run_id)).starting_up
            return (told.phase, told.since.timestamp(), told.done, told.total) if told else None

    phases: list[tuple[events.AnyEvent, tuple[str, float, int, int]]] = [
        (events.StartingUp(time=5.0, phase="starting_workers"), ("starting_workers", 5.0, 0, 0)),
        (events.StartingUp(time=5.5, phase="starting_workers", device="cuda"), ("starting_workers", 5.0, 0, 0)),
        (events.StartingUp(time=6.0, phase="measuring_costs"), ("measuring_costs", 6.0, 0, 0)),
        (events.StartingUp(time=7.0, phase="first_rollout", total=32), ("first_rollout", 7.0, 0, 32)),
        (events.StartingUp(time=8.0, phase="first_rollout", done=12, total=32), ("first_rollout", 7.0, 12, 32)),
    ]
    for event, expected in phases:
        write(path, event, *([started()] if expected[0] == "measuring_costs" else []))
        ingestor.drain()
        assert at() == expected
    write(path, *step(0))
    ingestor.drain()
    assert at() is None


def test_the_log_has_a_line_for_each_step_publication_checkpoint_and_alarm(database: Database, path: Path, ingestor: EventIngestor) -> None:
    session_of = {"step": 1, "microsteps": 3, "tokens": 9, "loss": 1.0, "held_out_before": 0.4, "held_out_after": 0.5}
    trained = [events.DrafterTrained(drafter_version=1, published=told, reason="why", **session_of) for told in (True, False)]
    saved = events.CheckpointSaved(step=1, path="checkpoints/step-1", seconds=0.1)
    write(path, started(), *step(0), *step(1), *trained, saved, events.Alarm(step=1, code="truncated", message="long"))
    ingestor.drain()
    with database.read() as session:
        told = session.execute(select(LogLine.code, LogLine.step, LogLine.message).order_by(LogLine.id)).all()
    assert [tuple(line) for line in told] == [
        ("started", None, "engine started at step 0 of 3 with 1 worker on cpu"),
        ("step", 0, "took 2.00 s (rollout 1.00 s): reward 0.500"),
        ("step", 1, "took 2.00 s (rollout 1.00 s): reward 0.500"),
        ("drafter", 1, "drafter version 1 is published: why"),
        ("drafter", 1, "the trained drafter is not published: why"),
        ("checkpoint", 1, "saved checkpoints/step-1"),
        ("truncated", 1, "long"),
    ]


def test_a_commit_whose_answer_is_lost_counts_once(
    database: Database, run_id: str, path: Path, ingestor: EventIngestor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt goes on, as it still has its run."""
    losing = [OperationalError("COMMIT", None, Exception("the connection is lost")), None]

    @contextmanager
    def write_and_lose() -> Iterator[Session]:
        with Session(database.writer) as session, session.begin():
            yield session
        if (error := losing.pop(0)) is not None:
            raise error

    write(path, started(), *step(0), events.RunFinished(steps=1))
    monkeypatch.setattr(database, "write", write_and_lose)
    with pytest.raises(OperationalError):
        ingestor.drain()
    ingestor.drain()
    assert ingestor.finished
    losing = [None]
    write(path, *step(1))
    ingestor.drain()
    with database.read() as session:
        assert session.get_one(Run, run_id).step == 2
        assert session.scalars(select(LogLine.code).order_by(LogLine.id)).all() == ["started", "step", "step"]


@pytest.mark.parametrize(("coefficient", "kl"), [(0.0, None), (0.1, 0.0)])
def test_a_kl_that_nobody_measured_is_null(database: Database, run_id: str, path: Path, coefficient: float, kl: float | None) -> None:
    """Also where an earlier version wrote 0 for it, and where the engine leaves it out."""
    with database.write() as session:
        session.get_one(Run, run_id).config = {"algorithm": {"kl_coefficient": coefficient}}
    old, new = ({"reward_mean": 0.5, **more} for more in ({"kl": 0.0}, {}))
    write(path, started(), *(events.StepFinished(step=at, seconds=1.0, phases={}, metrics=told) for at, told in enumerate((new, old))))
    begin(database, run_id, path).drain()
    with database.read() as session:
        assert session.get_one(Run, run_id).summary["kl"] == kl
        assert session.scalars(select(Metric.value).where(Metric.key == "kl", Metric.step == 1)).one() == kl
