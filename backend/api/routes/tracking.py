"""Runs that scripts track by themselves."""

from fastapi import APIRouter, Response

from backend.api.deps import BellDep, DatabaseDep, IdentityDep, ScribeDep, SettingsDep
from backend.api.routes.runs import ACTION, REPEATED, IdempotencyKey, accepted
from backend.schemas.runs import Run
from backend.schemas.tracking import Finish, NewBatch, Receipt, Tracked
from backend.services import projects, tracking

router = APIRouter(prefix="/runs", tags=["tracking"])


@router.post("/tracked", status_code=201, responses=REPEATED | ACTION)
def track(
    body: Tracked,
    response: Response,
    database: DatabaseDep,
    settings: SettingsDep,
    identity: IdentityDep,
    bell: BellDep,
    idempotency_key: IdempotencyKey = None,
) -> Run:
    """Begins a run that no worker carries: the caller tells what happens in it, and when it is over."""

    def begin() -> tuple[Run, bool]:
        with database.write() as session:
            place = projects.place_for(session, identity, body.project_id)
            run, is_new = tracking.begin(session, body, place, identity.user_name, idempotency_key, settings.silence_seconds)
            return Run.model_validate(run), is_new

    return accepted(response, bell, begin)


@router.post("/{run_id}/batches", responses=ACTION)
async def ingest(run_id: str, body: NewBatch, scribe: ScribeDep, settings: SettingsDep) -> Receipt:
    """Adds points and log lines to a tracked run, all or none. Sent again, the same batch changes nothing."""
    return await scribe.write(run_id, lambda session: tracking.ingest(session, run_id, body, settings.silence_seconds))


@router.post("/{run_id}/finish", responses=ACTION)
def finish(run_id: str, body: Finish, database: DatabaseDep) -> Run:
    """Closes a tracked run for good."""
    with database.write() as session:
        return Run.model_validate(tracking.finish(session, run_id, body.state, body.error))
