"""Runs side by side."""

from typing import Annotated

from fastapi import APIRouter, Query

from backend.api.deps import IdentityDep, Reading
from backend.api.problems import documented
from backend.errors import InvalidError
from backend.schemas.base import FieldError
from backend.schemas.comparison import Comparison
from backend.schemas.runs import Run
from backend.services import places, runs
from backend.services.aligned import aligned
from backend.services.comparison import compared, config_diff

MOST_RUNS = 10
MOST_KEYS = 20
MOST_POINTS = 2000

router = APIRouter(tags=["comparison"])


@router.get("/compare", responses=documented(404))
def compare(
    session: Reading,
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
        places.check(session, identity, {"run_id": run_id}, "viewer")
    chosen = [Run.model_validate(runs.find(session, run_id)) for run_id in ids]
    return Comparison(
        baseline=baseline,
        items=compared(session, chosen, points),
        config_diff=config_diff({one.id: one.config for one in chosen}),
        metrics=aligned(session, ids, wanted, points) if wanted else [],
    )
