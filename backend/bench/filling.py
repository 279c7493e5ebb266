"""Runs that never happened, but look as if: configurations, summaries, tags and series as the engine would have left them."""

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import insert

from backend.database import Database
from backend.models import Metric, Run, RunValue, new_id
from backend.rollup import summarise
from backend.services import run_values
from engine.config import RunConfig

AT_ONCE = 500
DAY_SECONDS = 24 * 3600.0
LONG_AGO = 1.8e9
OWNERS = ("anna", "bert", "carl", "dora", None)
TOPICS = ("countdown", "ablation", "long tail", "baseline", "sweep")
STATES = ("succeeded",) * 6 + ("failed", "cancelled", "running", "queued")
PHASES = {"phase/rollout": 4.0, "phase/reward": 0.1, "phase/inference": 0.5, "phase/update": 1.4, "phase/sync": 0.1}
METRICS = (
    *("reward_mean", "reward_std", "response_tokens", "tokens_per_second", "accept_length", "idle_seconds", "trained_seconds", "loss"),
    *("kl", "entropy", "gradient_norm", "clip_share", "logprob_gap", "drafter_version"),
)


def fill(database: Database, count: int, seed: int = 0) -> list[str]:
    """Adds so many runs, submitted one after the other; their ids."""
    chance = random.Random(seed)
    ids: list[str] = []
    for first in range(0, count, AT_ONCE):
        runs = [_run(number, chance) for number in range(first, min(first + AT_ONCE, count))]
        with database.write() as session:
            session.execute(insert(Run), runs)
            session.execute(insert(RunValue), [row for run in runs for row in _values(run)])
        ids += [run["id"] for run in runs]
    return ids


def fill_series(database: Database, run_ids: Sequence[str], steps: int) -> None:
    """Gives each of the runs all its series, of so many steps."""
    for number, run_id in enumerate(run_ids):
        chance = random.Random(number)
        rows = [row for step in range(steps) for row in _points(run_id, step, chance)]
        with database.write() as session:
            session.execute(insert(Metric), rows)


def _run(number: int, chance: random.Random) -> dict[str, Any]:
    topic, state = chance.choice(TOPICS), chance.choice(STATES)
    changes: dict[str, Any] = {
        "name": f"{topic} {number}",
        "seed": number,
        "model": {"path": chance.choice(("tiny", "small", "/models/qwen2.5-0.5b"))},
        "algorithm": {"learning_rate": chance.choice((1e-6, 1e-5, 2e-5, 1e-4)), "group_size": chance.choice((4, 8, 16))},
        "speculation": {"enabled": topic != "baseline"},
    }
    created = LONG_AGO + number * 600
    started = None if state == "queued" else created + chance.uniform(1, 100)
    finished = started + chance.uniform(60, DAY_SECONDS) if started and state in ("succeeded", "failed", "cancelled") else None
    return {
        "id": new_id(),
        "name": changes["name"],
        "state": state,
        "config": RunConfig.model_validate(changes).model_dump(mode="json"),
        "seed": number,
        "steps": 100,
        "step": 0 if started is None else 100 if state == "succeeded" else chance.randint(0, 99),
        "tags": sorted({topic.replace(" ", "-"), f"week-{number // 500}"}),
        "notes": f"see run {number - 1}, which {chance.choice(('was better', 'diverged'))}" if number % 7 == 0 else "",
        "owner": chance.choice(OWNERS),
        "created_at": created,
        "queued_at": created,
        "started_at": started,
        "finished_at": finished,
        "error": "the engine broke off with exit code 1" if state == "failed" else None,
        "summary": summarise(_metrics(chance)) if started else {},
    }


def _values(run: dict[str, Any]) -> list[dict[str, Any]]:
    labels = [*((f"tags.{tag}", "") for tag in run["tags"]), *([("notes", run["notes"])] if run["notes"] else [])]
    return run_values.rows(run["id"], [*run_values.flat({"config": run["config"], "summary": run["summary"]}), *labels])


def _points(run_id: str, step: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    for key, value in _metrics(chance).items():
        yield {"run_id": run_id, "key": key, "step": step, "value": value}


def _metrics(chance: random.Random) -> dict[str, float | None]:
    values: dict[str, float | None] = {name: math.exp(chance.gauss(0, 1)) for name in METRICS}
    phases = {name: seconds * chance.uniform(0.8, 1.2) for name, seconds in PHASES.items()}
    return values | phases | {"step_seconds": sum(phases.values())}
