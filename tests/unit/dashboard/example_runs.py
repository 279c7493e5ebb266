"""Runs, alone and as a comparison has them, for the tests of the dashboard."""

from datetime import UTC, datetime
from typing import Any

from backend.demo_data import telemetry
from longtail.schemas.comparison import ComparedRun, Measures
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import Series

NO_POINTS = Series()
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def run(run_id: str, config: dict[str, Any]) -> Run:
    return Run(
        id=run_id,
        name=config["name"],
        state="running",
        config=config,
        seed=0,
        tags=[],
        created_at=NOW,
        started_at=None,
        finished_at=None,
        step=5,
        steps=30,
        attempt=1,
        cancel_requested=False,
        error=None,
        error_code=None,
        summary={},
    )


def compared_run(speculation: bool, **figures: float) -> ComparedRun:
    """Over the same steps as all others that it is compared with."""
    config = telemetry.config(speculation)
    empty = {
        "seconds_per_step",
        "rollout_share",
        "rollout_speedup",
        "e2e_speedup",
        "reward_first",
        "reward_last",
        "accept_length",
        "harvest",
    }
    measures = Measures(steps=20, **{**dict.fromkeys(empty), **figures})
    return ComparedRun(run=run("x", config), reward=NO_POINTS, shared=measures, **dict(measures))


def compared_seed(run_id: str, seed: int, speculation: bool = True, name: str = "run", **figures: float) -> ComparedRun:
    one = compared_run(speculation, **figures)
    config: dict[str, Any] = one.run.config | {"seed": seed, "name": name}
    return one.model_copy(update={"run": one.run.model_copy(update={"id": run_id, "seed": seed, "config": config, "name": name})})
