"""Many runs at a glance: what a list shows beside the runs themselves."""

from typing import Annotated

from fastapi import APIRouter, Query

from backend.api.choice import ChoiceDep
from backend.api.deps import Reading
from backend.api.problems import documented
from backend.schemas.base import Items
from backend.schemas.glances import Glance
from backend.services.glances import glances
from backend.services.listing import listed

MOST = 100

router = APIRouter(tags=["runs"], responses=documented(404))


@router.get("/glances")
def list_glances(session: Reading, choice: ChoiceDep, limit: Annotated[int, Query(ge=1, le=MOST)] = 50) -> Items[Glance]:
    """Course of the reward, pace, and speed-up against the same run without (or with) speculation, of runs chosen as in their list."""
    runs, _ = listed(session, choice, limit, None)
    return Items(items=glances(session, runs))
