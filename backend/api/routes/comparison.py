"""Runs side by side."""

from typing import Annotated

from fastapi import APIRouter, Query

from backend.api.dependencies import IdentityDep, ReadSession
from backend.api.error_responses import documented
from backend.errors import InvalidError
from backend.services.projects import membership_check
from backend.services.runs import lookup
from backend.services.runs.comparison import compared, config_diff, whole_config
from backend.services.telemetry.metric_means import aligned_metrics
from longtail.schemas.base import FieldError
from longtail.schemas.comparison import Comparison
from longtail.schemas.runs import Run

MOST_RUNS = 10
MOST_KEYS = 20
MOST_POINTS = 2000

router = APIRouter(tags=["comparison"])


@router.get("/compare", responses=documented(404))
def compare(
    session: ReadSession,
    identity: IdentityDep,
    baseline: Annotated[str, Query(description="Id of the run that the others are measured by")],
    run: Annotated[list[str], Query(max_length=MOST_RUNS, description="Ids of the other runs")],
    keys: Annotated[
        str | None, Query(max_length=2000, pattern=r"^[^\x00]*$", description=f"Also these metrics, at most {MOST_KEYS}, comma-separated")
    ] = None,
    points: Annotated[int, Query(ge=1, le=MOST_POINTS, description="Of a metric, at most; each is a mean over as many steps")] = 500,
) -> Comparison:
    """Speed, reward and acceptance of runs against a baseline (which comes first in items), and where their configurations differ."""
    wanted = [key for key in (keys or "").split(",") if key]
    if len(wanted) > MOST_KEYS:
        raise InvalidError("the request is not valid", [FieldError(field="keys", message=f"at most {MOST_KEYS} keys")])
    ids = list(dict.fromkeys([baseline, *run]))
    for run_id in ids:
        membership_check.check_membership(session, identity, {"run_id": run_id}, "viewer")
    chosen = [Run.model_validate(lookup.find(session, run_id)) for run_id in ids]
    return Comparison(
        baseline=baseline,
        items=compared(session, chosen, points),
        config_diff=config_diff({one.id: whole_config(one) for one in chosen}),
        metrics=aligned_metrics(session, ids, wanted, points) if wanted else [],
    )
