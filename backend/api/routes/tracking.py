"""Runs that scripts track by themselves."""

from fastapi import APIRouter, Response
from sqlalchemy.orm import Session

from backend.api.dependencies import (
    BatchAuditTurnsDep,
    DatabaseDep,
    IdentityDep,
    MetricBatchWriterDep,
    NotifierDep,
    SettingsDep,
    SubmissionKeyDep,
)
from backend.api.routes.runs import ACTION, REPEATED, accepted
from backend.services.projects import management
from backend.services.runs import tracking
from longtail.schemas.runs import Run
from longtail.schemas.tracking import Finish, NewBatch, Receipt, Tracked

router = APIRouter(prefix="/runs", tags=["tracking"])


@router.post("/tracked", status_code=201, responses=REPEATED | ACTION)
def track(
    body: Tracked,
    response: Response,
    database: DatabaseDep,
    settings: SettingsDep,
    identity: IdentityDep,
    notifier: NotifierDep,
    key: SubmissionKeyDep,
) -> Run:
    """Begins a run that no worker carries: the caller tells what happens in it, and when it is over."""

    def begin() -> tuple[Run, bool]:
        with database.write() as session:
            project = management.project_for_new_run(session, identity, body.project_id)
            run, is_new = tracking.begin(session, body, project, identity.user_name, key, settings.silence_seconds)
            return Run.model_validate(run), is_new

    return accepted(response, notifier, begin)


@router.post("/{run_id}/batches", responses=ACTION)
async def ingest(
    run_id: str, body: NewBatch, batch_writer: MetricBatchWriterDep, settings: SettingsDep, database: DatabaseDep, turns: BatchAuditTurnsDep
) -> Receipt:
    """Adds points and log lines to a tracked run, all or none. Sent again, the same batch changes nothing. The audit log has
    the first batch of a token for a run, and then one in ten minutes."""
    turn = f"{run_id} {database.token_id}"
    is_audited = turns.is_free(turn)

    def write(session: Session) -> Receipt:
        receipt = tracking.ingest(session, run_id, body, settings.silence_seconds)
        if is_audited and not receipt.repeated:
            database.note(session)
        return receipt

    receipt = await batch_writer.write(run_id, write)
    if is_audited and not receipt.repeated:
        turns.take(turn)
    return receipt


@router.post("/{run_id}/finish", responses=ACTION)
def finish(run_id: str, body: Finish, database: DatabaseDep) -> Run:
    """Closes a tracked run for good."""
    with database.write() as session:
        return Run.model_validate(tracking.finish(session, run_id, body.state, body.error))
