"""Runs of scripts that only told what they did: their configuration is whatever they liked, their series have any names and gaps."""

import random
from collections.abc import Iterator
from math import exp, sin
from typing import Any

from sqlalchemy.orm import Session

from backend.database import Database
from backend.demo_data import texts
from backend.demo_data.planned_runs import TAG, identity
from backend.models import Run
from backend.services.runs import search_index
from backend.services.runs.tracking import write
from longtail.schemas.tracking import NewBatch, NewLine, NewPoints

EVERY = 50
"""Of so many runs, one is a script's."""
FEW_KEYS = ("train/loss", "train/learning_rate", "eval/accuracy", "gpu/0/memory_gb", "<b>markup</b>", "Länge")
MANY_KEYS = tuple(f"layer.{number:03d}/norm" for number in range(200))
STEPS, APART_SECONDS = 120, 70_000.0
AT_ONCE = 50
"""Series in a batch."""
CONFIG: dict[str, Any] = {
    "optimizer": {"name": "adamw", "lr": 3e-4},
    "speculation": "no",
    "files": ["a.txt", "b.txt"],
    "script": "train.py",
}


def fill(database: Database, runs: int, seed: int, now: float) -> list[str]:
    """Adds as many as belong to so many runs of the platform; their ids."""
    ids = [identity(-1000 - number, seed) for number in range(runs // EVERY)]
    for number, run_id in enumerate(ids):
        with database.write() as session:
            _put(session, run_id, random.Random(f"{seed} {number}"), now - (number + 0.5) * APART_SECONDS, number % 5 == 0)
    return ids


def _put(session: Session, run_id: str, chance: random.Random, created: float, has_many: bool) -> None:
    error = chance.choice((None, None, None, "KeyError: 'labels'\n  File \"train.py\", line 12, in <module>"))
    run = Run(
        id=run_id,
        kind="tracked",
        name=f"train.py of {chance.choice(('main', 'my-branch', 'tuesday'))}" + (", 200 series" if has_many else ""),
        state="failed" if error else "succeeded",
        config=CONFIG | {"seed": chance.randrange(10)},
        seed=0,
        tags=sorted({TAG, "script"}),
        owner=chance.choice(texts.OWNERS),
        created_at=created,
        started_at=created,
        finished_at=created + STEPS * 30,
        error=error,
        error_code="script" if error else None,
        step=0,
        summary={},
        steps=chance.choice((0, STEPS)),
    )
    session.add(run)
    session.flush()
    search_index.index_run(session, run)
    keys = MANY_KEYS if has_many else FEW_KEYS
    for first in range(0, len(keys), AT_ONCE):
        batch = NewBatch(
            id=str(first), series=list(_series(keys[first : first + AT_ONCE], chance)), lines=[] if first else list(_lines(created))
        )
        progress = write(session, run_id, batch, run.step, run.summary)
        run.step, run.summary = progress["step"], progress["summary"]
    search_index.index_summary(session, run_id, run.summary)


def _series(keys: tuple[str, ...], chance: random.Random) -> Iterator[NewPoints]:
    """Some are told of every tenth step only, and some have values that are no numbers."""
    for number, key in enumerate(keys):
        start, noise, stride = chance.uniform(1, 3), chance.uniform(0, 0.2), 10 if key.startswith("eval") else 1
        values = [(step, start * exp(-step / 50) + noise * sin(step * (number + 1))) for step in range(0, STEPS, stride)]
        yield NewPoints(key=key, points=[(step, None if step % 37 == 36 else value) for step, value in values])


def _lines(created: float) -> Iterator[NewLine]:
    for number, message in enumerate(texts.LINES):
        yield NewLine(message=message, level="info", step=number, time=created + number)
