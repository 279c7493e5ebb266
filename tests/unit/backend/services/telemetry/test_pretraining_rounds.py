"""Drafters that are trained before the first step: what is told of it is kept, and says how far a run is."""

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from engine_events import begin, pretrained, started, step, write
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import select

from backend.backup.rebuild import rebuild_run
from backend.cli import terminal
from backend.database import Database
from backend.jobs.engine.supervisor import Supervisor
from backend.models import Attempt, LogLine, PretrainingRound, Run, RunValue, new_id
from backend.services.runs import control, submission
from backend.services.runs.attempts import Outcome, claim, settle
from backend.services.telemetry.event_ingest import EventIngestor
from backend.settings import Settings
from engine.checkpoint import storage
from engine.config import RunConfig
from engine.errors import RESUMABLE
from engine.events import AnyEvent, RunFinished, RunStarted, RunStopped, StartingUp, StepFinished, read
from longtail.schemas.runs import Run as RunReply

DRAFTER = {"pretrain_minutes": 10}


def start(steps: int) -> RunStarted:
    return started().model_copy(update={"steps": steps})


@pytest.fixture(params=[0, 3])
def steps(request: pytest.FixtureRequest) -> int:
    """A run that trains a drafter only, and one that goes on with RL."""
    return int(request.param)


@pytest.fixture
def run_id(database: Database, steps: int) -> str:
    with database.write() as session:
        config = RunConfig.model_validate({"algorithm": {"steps": steps}, "drafter": DRAFTER})
        return submission.submit(session, config, submission.SubmissionOptions())[0].id


@pytest.fixture
def path(settings: Settings, run_id: str) -> Path:
    path = settings.run_folder(run_id) / "events.jsonl"
    path.parent.mkdir(parents=True)
    return path


def told(database: Database, run_id: str, path: Path, *events: AnyEvent) -> None:
    write(path, *events)
    begin(database, run_id, path).drain()


def reply(database: Database, run_id: str) -> RunReply:
    with database.read() as session:
        return RunReply.model_validate(session.get_one(Run, run_id))


def rounds(database: Database) -> list[tuple[int, float | None]]:
    with database.read() as session:
        found = session.scalars(select(PretrainingRound).order_by(PretrainingRound.round))
        return [(row.round, row.held_out) for row in found]


def test_rounds_are_told_by_rest_and_say_how_far_the_run_is(
    api: TestClient, database: Database, run_id: str, path: Path, steps: int
) -> None:
    told(database, run_id, path, start(steps), pretrained(1, 60), pretrained(2, 150, 0.6, loss=float("nan")))
    items = api.get(f"/api/v1/runs/{run_id}/pretraining").json()["items"]
    assert [(item["round"], item["seconds"], item["loss"]) for item in items] == [(1, 60, 2.0), (2, 150, None)]
    later = api.get(f"/api/v1/runs/{run_id}/pretraining", params={"since_round": 1}).json()["items"]
    assert later == api.get(f"/api/v1/runs/{run_id}/pretraining", params={"every": 2}).json()["items"] == items[1:]
    run = RunReply.model_validate(api.get(f"/api/v1/runs/{run_id}").json())
    assert run.pretraining is not None
    assert (run.share_done, run.pretraining.seconds_left, run.summary["accept_length"]) == (0.25, 450, 3.4)
    assert run.summary["accept_recent"] == 3.4, "lists are sorted by it"
    assert run.pretrains
    ended = datetime.fromtimestamp(run.pretraining.time, UTC)
    assert "round 2, 2.5 of about 10.0 min, about 7.5 min to go; 128 responses" in terminal.pretraining(run, ended)
    soon = ended + timedelta(minutes=3)
    assert "round 2, 5.5 of about 10.0 min, about 4.5 min to go; 128 responses" in terminal.pretraining(run, soon)
    assert terminal.done(run, soon) == "drafter 5.5/10.0 min"


def test_at_its_end_a_run_is_done_or_has_its_steps_before_it(database: Database, run_id: str, path: Path, steps: int) -> None:
    last = pretrained(3, 320, 0.7, end=300.0, done=True)
    told(database, run_id, path, start(steps), pretrained(2, 150), last, *([RunFinished(steps=0)] if steps == 0 else step(0)))
    run = reply(database, run_id)
    assert (run.share_done, run.pretrains) == ((1.0, True) if steps == 0 else (1 / 3, False))
    assert terminal.done(run) == ("drafter 5.3 min" if steps == 0 else "1/3")
    with database.read() as session:
        said = session.scalars(select(LogLine.message).where(LogLine.code == "pretrained")).one()
    assert said == "the drafter is pretrained: 5.3 minutes, 3 rounds, 192 responses, expected accept length 3.80"


def test_an_attempt_that_begins_anew_takes_back_the_rounds_beyond(database: Database, run_id: str, path: Path, steps: int) -> None:
    """As when its second round was saved, and later nothing at all."""
    events = [pretrained(1, 10, 0.1), pretrained(2, 20, 0.2), pretrained(3, 30, 0.3)]
    told(database, run_id, path, start(steps), *events, start(steps), pretrained(3, 33, 0.35))
    assert rounds(database) == [(1, 0.1), (2, 0.2), (3, 0.35)]
    write(path, start(steps), pretrained(1, 11, 0.15))
    with database.write() as session:
        settle(session, run_id, 1, Outcome("lost", error="gone"), 9)
    begin(database, run_id, path).drain()
    assert rounds(database) == [(1, 0.15)]


def test_a_rebuild_gives_the_same_rounds(database: Database, settings: Settings, run_id: str, path: Path, steps: int) -> None:
    told(database, run_id, path, start(steps), pretrained(1, 10), pretrained(2, 20, 0.6))
    before, latest = rounds(database), reply(database, run_id).pretraining
    with database.write() as session:
        run = session.get_one(Run, run_id)
        run.state, run.pretraining = "failed", None
        session.get_one(PretrainingRound, (run_id, 1)).held_out = 0.0
    assert rebuild_run(settings, run_id) == 0
    assert (rounds(database), reply(database, run_id).pretraining) == (before, latest)


def test_a_run_without_steps_divides_nothing_by_them(api: TestClient, database: Database, run_id: str, path: Path, steps: int) -> None:
    told(database, run_id, path, start(steps), pretrained(1, 150))
    gauges = {sample.name: sample.value for family in text_string_to_metric_families(api.get("/metrics").text) for sample in family.samples}
    assert gauges["longtail_run_pretraining_seconds_left"] == 450
    assert ("longtail_run_progress" in gauges) == (steps > 0)
    compared = api.get("/api/v1/compare", params={"baseline": run_id, "run": [run_id]}).json()
    assert compared["items"][0]["steps"] == 0


def test_a_phase_is_told_until_the_attempts_first_round_is_over(database: Database, run_id: str, path: Path, steps: int) -> None:
    """The next attempt is at nothing until its engine says so."""

    def at() -> str | None:
        phase = reply(database, run_id).starting_up
        return phase.phase if phase else None

    told(database, run_id, path, StartingUp(phase="measuring_costs"), start(steps), StartingUp(phase="first_responses"))
    assert (at(), terminal.done(reply(database, run_id))) == ("first_responses", "first responses, of about 10 min")
    ingestor = EventIngestor(database, run_id, 1, path)
    write(path, StartingUp(phase="first_round"), pretrained(1, 10))
    ingestor.drain()
    assert at() is None
    write(path, StartingUp(phase="measuring_costs"))
    ingestor.drain()
    assert at() == "measuring_costs"
    with database.write() as session:
        settle(session, run_id, 1, Outcome("lost", error="gone"), 9)
        claim(session, run_id, new_id(), 60)
    assert at() is None


def test_losses_count_anew_from_a_further_round_only(database: Database, run_id: str, path: Path, steps: int) -> None:
    """Where every attempt dies in the same round, it is given up."""
    states = []
    write(path, start(steps))
    for attempt, number in enumerate((2, 5, 5), 1):
        told(database, run_id, path, pretrained(number, 10 * number))
        with database.write() as session:
            states.append(settle(session, run_id, attempt, Outcome("lost", error="gone"), 1))
    assert states == ["queued", "queued", "failed"]


def test_a_pause_in_the_midst_says_so_and_is_resumed(database: Database, settings: Settings, run_id: str, path: Path, steps: int) -> None:
    with database.write() as session:
        claimed = claim(session, run_id, new_id(), 60)
        session.get_one(Run, run_id).pause_requested = True
    assert claimed is not None
    supervisor = Supervisor(database, settings, claimed, time.monotonic(), threading.Event())
    write(path, start(steps), pretrained(1, 10), RunStopped(step=-1))
    supervisor._ingestor.drain()
    with database.write() as session:
        assert settle(session, run_id, 1, supervisor._outcome(None, RESUMABLE), 0) == "paused"
        assert session.get_one(Attempt, (run_id, 1)).error == "stopped while its drafter was being pretrained"
        control.resume(session, run_id)
        again = claim(session, run_id, new_id(), 60)
    assert again is not None
    assert again.resumes


def test_a_retry_goes_on_with_pretraining(
    api: TestClient, database: Database, settings: Settings, run_id: str, path: Path, steps: int
) -> None:
    told(database, run_id, path, start(steps), pretrained(1, 10), pretrained(2, 20))
    for number in (1, 2):
        storage.save(path.parent / "pretraining", number, {"state.json": number})
    buffer = path.parent / "checkpoints" / "buffer_0" / "000000000.safetensors"
    buffer.parent.mkdir(parents=True)
    buffer.touch()
    with database.write() as session:
        settle(session, run_id, 1, Outcome("cancelled"), 0)
    run = api.post(f"/api/v1/runs/{run_id}/retry").json()
    folder = settings.run_folder(run["id"])
    assert run["resumed_step"] == -1
    assert {saved.name for saved in (folder / "pretraining").iterdir()} == {"step_000001", "step_000002"}
    assert (folder / "checkpoints" / "buffer_0" / buffer.name).exists(), "the responses that it is trained on"
    assert [event.kind for event in read(folder / "events.jsonl")] == ["run_started", "pretraining", "pretraining"]


def test_what_was_expected_before_the_first_step_is_not_what_was_seen_in_it(database: Database, run_id: str, path: Path) -> None:
    """Nor are lists sorted by it, where the step does not tell its accept length."""
    known: list[AnyEvent] = [start(3), pretrained(1, 60)]
    write(path, *known)
    ingestor = begin(database, run_id, path)
    ingestor.drain()
    assert reply(database, run_id).summary["accept_recent"] == 3.0
    write(path, StepFinished(step=0, seconds=1.0, phases={}, metrics={"reward_mean": 0.5}))
    ingestor.drain()
    assert reply(database, run_id).summary["accept_recent"] is None
    with database.read() as session:
        assert session.scalar(select(RunValue.number).where(RunValue.field == "summary.accept_recent")) is None
