"""Runs: submit, find, and what can be done with one."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Header, Response
from sqlalchemy.exc import IntegrityError

from backend.api.background.worker_notifier import WorkerNotifier
from backend.api.dependencies import (
    Cursor,
    DatabaseDep,
    IdentityDep,
    Limit,
    LongCursor,
    NotifierDep,
    ReadSession,
    RunDep,
    SettingsDep,
    SubmissionKeyDep,
)
from backend.api.entity_tags import UNCHANGED, IfNoneMatch, is_named, unchanged
from backend.api.error_responses import Responses, documented
from backend.api.location import point_to
from backend.api.run_filter import RunFilterDep
from backend.errors import InvalidError
from backend.services.projects import management
from backend.services.runs import attempts, clone_and_retry, control, editing, submission
from backend.services.runs.comparison import config_diff
from backend.services.runs.listing import page_of_runs, totals_by_state
from backend.services.runs.validation import validated_config
from longtail.schemas.attempts import AttemptPage
from longtail.schemas.runs import CloneRequest, Run, RunChange, RunPage, RunTotals, Submission
from longtail.schemas.validation import ConfigCheck, Validation

router = APIRouter(prefix="/runs", tags=["runs"])

IfMatch = Annotated[str | None, Header(max_length=200, description="The ETag of the run that the caller has seen")]


ACTION = documented(404, 409)
REPEATED: Responses = {200: {"model": Run, "description": "Accepted before"}}


@router.post("", status_code=201, responses=REPEATED | ACTION)
def submit(
    body: Submission,
    response: Response,
    database: DatabaseDep,
    settings: SettingsDep,
    notifier: NotifierDep,
    identity: IdentityDep,
    key: SubmissionKeyDep,
) -> Run:
    """Accepts a run. From here on it reaches a terminal state, whatever fails in between."""
    config = validated_config(body.config, settings, identity.role)
    start_after = body.start_after.timestamp() if body.start_after else None
    source = body.source.model_dump() if body.source else None

    def submit() -> tuple[Run, bool]:
        with database.write() as session:
            project = management.project_for_new_run(session, identity, body.project_id)
            options = submission.SubmissionOptions(
                tuple(body.tags), body.priority, body.needs or "", start_after, identity.user_name, project.id, body.notes, source
            )
            run, is_new = submission.submit(session, config, options, key)
            return Run.model_validate(run), is_new

    return accepted(response, notifier, submit)


@router.post("/validate", responses=documented(403))
def validate(body: ConfigCheck, session: ReadSession, settings: SettingsDep, identity: IdentityDep) -> Validation:
    """Checks a configuration, its model folder and its data without submitting it; of a valid one all defaults, and what it changes."""
    management.check_may_submit(session, identity)
    try:
        config = validated_config(body.config, settings, identity.role).model_dump(mode="json")
    except InvalidError as error:
        return Validation(valid=False, errors=error.errors)
    differences = [] if body.base is None else config_diff({"base": body.base, "config": config})
    return Validation(valid=True, errors=[], config=config, differences=differences)


@router.get("", responses=documented(404))
def list_runs(session: ReadSession, run_filter: RunFilterDep, limit: Limit = 50, cursor: LongCursor = None) -> RunPage:
    """Those chosen, newest first unless ``sort`` says otherwise; runs without a value to sort by come last."""
    return RunPage.from_rows(page_of_runs(session, run_filter, limit, cursor))


@router.get("/totals", responses=documented(404))
def run_totals(session: ReadSession, run_filter: RunFilterDep) -> RunTotals:
    """How many of those chosen there are in each state."""
    return RunTotals.model_validate({"states": totals_by_state(session, run_filter)})


@router.get("/{run_id}", response_model=Run, responses=documented(404) | UNCHANGED)
def get_run(run: RunDep, response: Response, if_none_match: IfNoneMatch = "") -> Run | Response:
    """Its ETag begins with the revision, which a PATCH may name by If-Match; all of it, by If-None-Match, stands for the whole run."""
    reply = _tagged(response, Run.model_validate(run))
    tag = response.headers["etag"]
    return unchanged(tag) if is_named(if_none_match, tag) else reply


@router.patch("/{run_id}", responses=documented(404, 409, 412))
def change_run(
    run_id: str, body: RunChange, response: Response, database: DatabaseDep, identity: IdentityDep, if_match: IfMatch = None
) -> Run:
    """Changes name, notes, tags, priority, project or owner; with If-Match only if nobody else has done so since, or else it is refused
    with 412."""
    with database.write() as session:
        return _tagged(response, Run.model_validate(editing.change(session, run_id, body, if_match, identity)))


@router.get("/{run_id}/attempts", responses=documented(404))
def list_attempts(run: RunDep, session: ReadSession, limit: Limit = 50, cursor: Cursor = None) -> AttemptPage:
    """Each try to carry the run, first to last: by which worker, how it ended, and in what it ran."""
    return AttemptPage.from_rows(attempts.attempts(session, run.id, limit, cursor))


@router.post("/{run_id}/cancel", responses=ACTION)
def cancel(run_id: str, database: DatabaseDep) -> Run:
    """A run that waits is cancelled at once, an active one within seconds; a finished one is refused with 409."""
    with database.write() as session:
        return Run.model_validate(control.cancel(session, run_id))


@router.post("/{run_id}/pause", responses=ACTION)
def pause(run_id: str, database: DatabaseDep) -> Run:
    """A queued run is paused at once; an active one stops at its next step boundary, with a checkpoint, and frees its worker. One that is
    pretraining its drafter stops after the round."""
    with database.write() as session:
        return Run.model_validate(control.pause(session, run_id))


@router.post("/{run_id}/resume", responses=ACTION)
def resume(run_id: str, database: DatabaseDep, notifier: NotifierDep) -> Run:
    """A paused run is queued again and goes on from its last checkpoint; one that was about to pause goes on."""
    with database.write() as session:
        run = Run.model_validate(control.resume(session, run_id))
    notifier.notify(run)
    return run


@router.post("/{run_id}/retry", status_code=201, responses=REPEATED | ACTION)
def retry(
    run_id: str,
    response: Response,
    database: DatabaseDep,
    settings: SettingsDep,
    notifier: NotifierDep,
    identity: IdentityDep,
    key: SubmissionKeyDep,
) -> Run:
    """A new run that goes on from the last checkpoint of a failed or cancelled one: after ``resumed_step``, null: it had none, -1:
    in the midst of pretraining its drafter."""
    return accepted(response, notifier, lambda: clone_and_retry.retry(database, settings, run_id, identity.role, key))


@router.post("/{run_id}/clone", status_code=201, responses=REPEATED | ACTION)
def clone(
    run_id: str,
    body: CloneRequest,
    response: Response,
    database: DatabaseDep,
    settings: SettingsDep,
    notifier: NotifierDep,
    identity: IdentityDep,
    key: SubmissionKeyDep,
) -> Run:
    """A new run of one's own with the same configuration, but for the fields that ``config`` names, from the beginning."""
    return accepted(response, notifier, lambda: clone_and_retry.clone(database, settings, run_id, body, identity, key))


@router.delete("/{run_id}", status_code=204, responses=ACTION)
def delete(run_id: str, database: DatabaseDep) -> None:
    """A finished run leaves every list at once; for some days it can be restored."""
    with database.write() as session:
        control.remove(session, run_id)


@router.post("/{run_id}/restore", responses=documented(404))
def restore(run_id: str, database: DatabaseDep) -> Run:
    """Takes back a deletion."""
    with database.write() as session:
        return Run.model_validate(control.restore(session, run_id))


def _tagged(response: Response, run: Run) -> Run:
    response.headers["etag"] = editing.entity_tag(run)
    return run


def accepted(response: Response, notifier: WorkerNotifier, accept: Callable[[], tuple[Run, bool]]) -> Run:
    try:
        run, is_new = accept()
    except IntegrityError:  # the same Idempotency-Key was accepted meanwhile: now it is found
        run, is_new = accept()
    notifier.notify(run)
    if is_new:
        point_to(response, "runs", run.id)
    response.status_code = 201 if is_new else 200
    return run
