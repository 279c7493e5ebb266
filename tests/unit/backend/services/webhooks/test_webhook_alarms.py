"""Webhooks hear of alarms once, by name."""

import json
from contextlib import closing
from pathlib import Path

from sqlalchemy import delete, select, update
from webhook_cases import subscribe, waiting

from backend.database import Database
from backend.models import Delivery, LogLine, Run, new_id
from backend.services.runs import clone_and_retry
from backend.services.runs.attempts import Outcome, claim, settle
from backend.services.telemetry.event_ingest import EventIngestor, rebuild
from backend.settings import Settings
from engine import events
from engine.checkpoint import storage
from engine.events import EventWriter


def test_a_fall_of_the_reward_and_a_collapse_of_acceptance_are_told_by_name(database: Database, run_id: str, tmp_path: Path) -> None:
    subscribe(database, 9, "run.reward_fell", "run.acceptance_collapsed")
    with database.write() as session:
        taken = claim(session, run_id, new_id(), 60)
    assert taken
    rewards = [0.6 + 0.01 * (step % 3) for step in range(30)] + [0.2 + 0.01 * (step % 3) for step in range(40)]
    writer = EventWriter(tmp_path / "events.jsonl")
    writer.write(events.RunStarted(first_step=0, steps=70, workers=1, model_parameters=1, device="cpu", packages={}))
    ingestor = EventIngestor(database, run_id, taken.attempt, tmp_path / "events.jsonl")
    for step, reward in enumerate(rewards):
        writer.write(events.StepFinished(step=step, seconds=1.0, phases={}, metrics={"reward_mean": reward}))
        if step % 5 == 4:
            ingestor.drain()
    writer.write(events.Alarm(step=69, code="acceptance_collapsed", message="3% are accepted"))
    ingestor.drain()
    assert sorted(event for event, _, _ in waiting(database)) == ["run.acceptance_collapsed", "run.reward_fell"], "each once"


def test_what_a_run_was_told_of_is_not_told_again_of_its_retry(database: Database, settings: Settings, run_id: str) -> None:
    told = ("run.alarm", "run.reward_fell", "run.acceptance_collapsed")
    subscribe(database, 9, *told)
    folder = settings.run_folder(run_id)
    folder.mkdir(parents=True)

    def tell(run_id: str, first: int, last: int) -> None:
        """Steps, the latest of which bring less, and an alarm; as an engine that begins with ``first``."""
        with database.write() as session:
            taken = claim(session, run_id, new_id(), 60)
        assert taken is not None
        path = settings.run_folder(run_id) / "events.jsonl"
        ingestor = EventIngestor(database, run_id, taken.attempt, path)
        ingestor.drain()
        with closing(EventWriter(path)) as writer:
            writer.write(events.RunStarted(first_step=first, steps=90, workers=1, model_parameters=1, device="cpu", packages={}))
            for step in range(first, last):
                reward = (0.6 if step < 25 else 0.2) + 0.01 * (step % 3)
                writer.write(events.StepFinished(step=step, seconds=1.0, phases={}, metrics={"reward_mean": reward}))
            writer.write(events.Alarm(step=last - 1, code="acceptance_collapsed", message="3% are accepted"))
        with path.open("a", encoding="utf-8") as file:
            file.write("no event\n" * (first == 0))
        with closing(EventWriter(path)) as writer:
            saved = storage.save(path.parent / "checkpoints", last - 1, {"state.json": 0})
            writer.write(events.CheckpointSaved(step=last - 1, path=str(saved.path), seconds=0.1))
        ingestor.drain()

    tell(run_id, 0, 48)
    assert sorted({event for event, _, _ in waiting(database)}) == sorted(told)
    with database.write() as session:
        session.execute(delete(Delivery))
        settle(session, run_id, 1, Outcome("failed", error="out of luck"), 0)
    child, _ = clone_and_retry.retry(database, settings, run_id, "admin")
    tell(child.id, 48, 49)
    with database.read() as session:
        assert len(session.scalars(select(LogLine).where(LogLine.run_id == child.id, LogLine.code == "bad_event")).all()) == 1
        again = [
            (event, json.loads(body)["data"]["alarm"]["step"]) for event, body in session.execute(select(Delivery.event, Delivery.body))
        ]
    assert sorted(again) == [("run.acceptance_collapsed", 48), ("run.alarm", 48)], "its own only"


def test_an_alarm_of_an_engine_whose_clock_is_behind_is_told(database: Database, run_id: str, tmp_path: Path) -> None:
    subscribe(database, 9, "run.alarm")
    with database.write() as session:
        session.execute(update(Run).where(Run.id == run_id).values(created_at=Run.created_at + 3600))
        taken = claim(session, run_id, new_id(), 60)
    assert taken is not None
    with closing(EventWriter(tmp_path / "events.jsonl")) as writer:
        writer.write(events.RunStarted(first_step=0, steps=3, workers=1, model_parameters=1, device="cpu", packages={}))
        writer.write(events.Alarm(step=1, code="collapse", message="acceptance collapsed"))
    EventIngestor(database, run_id, taken.attempt, tmp_path / "events.jsonl").drain()
    assert [event for event, _, _ in waiting(database)] == ["run.alarm"]


def test_an_alarm_is_told_once_and_not_again_when_the_past_is_rebuilt(database: Database, run_id: str, tmp_path: Path) -> None:
    subscribe(database, 9, "run.alarm")
    with database.write() as session:
        taken = claim(session, run_id, new_id(), 60)
    assert taken is not None
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path)
    writer.write(events.RunStarted(first_step=0, steps=3, workers=1, model_parameters=1, device="cpu", packages={}))
    writer.write(events.Alarm(step=1, code="collapse", message="acceptance collapsed"))
    writer.close()
    for _ in range(2):
        EventIngestor(database, run_id, taken.attempt, path).drain()
    rebuild(database, run_id, path)
    with database.read() as session:
        (body,) = session.scalars(select(Delivery.body)).all()
    data = json.loads(body)["data"]
    assert data["alarm"] == {"step": 1, "code": "collapse", "message": "acceptance collapsed"}
    assert data["run"]["id"] == run_id
