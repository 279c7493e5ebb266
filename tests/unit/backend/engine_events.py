"""Events as an engine writes them."""

from pathlib import Path
from typing import Any

from backend.database import Database
from backend.models import new_id
from backend.services.runs.attempts import claim
from backend.services.telemetry.event_ingest import EventIngestor
from engine import events
from engine.events import AnyEvent, EventWriter

STEPS = 3


PIECES = [events.Piece("eagle", 2, 2), events.Piece("target", 1, 1)]


def begin(database: Database, run_id: str, path: Path) -> EventIngestor:
    with database.write() as session:
        claimed = claim(session, run_id, new_id(), 60)
    assert claimed is not None
    return EventIngestor(database, run_id, claimed.attempt, path)


def write(path: Path, *items: AnyEvent) -> None:
    writer = EventWriter(path)
    for item in items:
        writer.write(item)
    writer.close()


def started(first_step: int = 0) -> events.RunStarted:
    return events.RunStarted(first_step=first_step, steps=STEPS, workers=1, model_parameters=1, device="cpu", packages={})


def step(number: int, reward: float = 0.5) -> list[AnyEvent]:
    arm = events.ArmStatistics(bucket=1, strategy="7x1x7", pulls=3, requests=3, accepted=9, seconds=0.1)
    return [
        events.WorkerSpan(step=number, worker=0, state="BUSY", start=10.0, end=11.0),
        events.Decoding(
            step=number, worker=0, start=10.0, points=[(0.0, 4, "off"), (0.75, 1, "mixed"), (1.0, 0, "off")], marks=[(1.0, "stopped", 3)]
        ),
        events.RolloutFinished(step=number, lengths=[4, 2, 8, 6], truncated=1),
        events.Speculation(
            step=number,
            arms=[arm],
            drafted_by_position=[3, 3],
            accepted_by_position=[2, 1],
            ngram_drafted_by_position=[1, 0],
            ngram_accepted_by_position=[1, 0],
            untrained="no worker was idle",
        ),
        events.Sample(step=number, prompt="1 2 3", response="a\0b", reward=reward, pieces=PIECES),
        events.StepFinished(
            step=number,
            seconds=2.0,
            phases={"rollout": 1.0},
            metrics={"reward_mean": reward, "loss": float("nan"), "idle_seconds": 4.0, "trained_seconds": 3.0, "system/a/cpu_percent": 9.0},
        ),
    ]


def pretrained(round: int, seconds: float, accepted: float = 0.5, limit: float = 600.0, **facts: Any) -> events.DrafterPretrained:
    """A round after so many seconds, with so much of held-out drafts accepted."""
    told: dict[str, Any] = {"end": limit, "done": seconds >= limit, "responses": 64 * round, "response_tokens": 6400 * round}
    trained = {"microsteps": 9, "tokens": 4096, "loss": 2.0, "vocabulary": 8192, "drafter_version": round}
    measured = {"held_out": accepted, "top1": accepted, "top3": accepted, "accept_length": 1 + 4 * accepted}
    return events.DrafterPretrained(round=round, seconds=seconds, limit=limit, **told | trained | measured | facts)
