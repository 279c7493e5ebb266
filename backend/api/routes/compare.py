"""Runs side by side."""

from typing import Annotated

from fastapi import APIRouter, Query

from backend.api.deps import Reading
from backend.api.problems import documented
from backend.schemas.comparison import Comparison
from backend.schemas.runs import Run
from backend.services import runs
from backend.services.comparison import compared, config_diff
from backend.services.telemetry import series

MOST_RUNS = 20
KEYS = ("step_seconds", "phase/rollout", "reward_mean", "accept_length", "trained_seconds", "idle_seconds")

router = APIRouter(tags=["comparison"])


@router.get("/compare", responses=documented(404))
def compare(
    session: Reading,
    baseline: Annotated[str, Query(description="Id of the run that the others are measured by")],
    run: Annotated[list[str], Query(max_length=MOST_RUNS, description="Ids of the other runs")],
) -> Comparison:
    """Speed, reward and acceptance of runs against a baseline (which comes first in items), and where their configurations differ."""
    chosen = [Run.model_validate(runs.find(session, run_id)) for run_id in dict.fromkeys([baseline, *run])]
    measured = {one.id: series(session, one.id, KEYS) for one in chosen}
    return Comparison(
        baseline=baseline,
        items=[compared(one, measured[one.id], measured[baseline]) for one in chosen],
        config_diff=config_diff({one.id: one.config for one in chosen}),
    )
