"""What a list shows of many runs beside the runs themselves."""

from typing import Annotated

from fastapi import APIRouter, Query

from backend.api.dependencies import ReadSession
from backend.api.error_responses import documented
from backend.api.run_filter import RunFilterDep
from backend.services.runs.listing import page_of_runs
from backend.services.runs.overviews import run_overviews
from longtail.schemas.base import Items
from longtail.schemas.run_overviews import RunOverview

MOST = 100

router = APIRouter(tags=["runs"], responses=documented(404))


@router.get("/glances")
def list_glances(session: ReadSession, run_filter: RunFilterDep, limit: Annotated[int, Query(ge=1, le=MOST)] = 50) -> Items[RunOverview]:
    """Course of the reward, pace, and speed-up against the same run without (or with) speculation, of runs chosen as in their list."""
    runs, _ = page_of_runs(session, run_filter, limit, None)
    return Items(items=run_overviews(session, runs))
