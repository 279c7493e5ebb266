"""Runs: submit, find, and what can be done with one."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Header, Response
from sqlalchemy.exc import IntegrityError

from backend.api.bell import Bell
from backend.api.choice import ChoiceDep
from backend.api.deps import BellDep, DatabaseDep, IdentityDep, Limit, LongCursor, Reading, RunDep, SettingsDep
from backend.api.problems import Responses, documented
from backend.errors import InvalidError
from backend.schemas.attempts import Attempt
from backend.schemas.base import Items
from backend.schemas.checks import ConfigCheck, Validation
from backend.schemas.runs import Copy, Run, RunChange, RunPage, Submission
from backend.services import attempts, control, copies, projects, runs
from backend.services.comparison import config_diff
from backend.services.listing import listed
from backend.services.validation import usable

router = APIRouter(prefix="/runs", tags=["runs"])

IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=200, description="Makes a repeated submission give the first run")]
IfMatch = Annotated[str | None, Header(max_length=200, description="The ETag of the run that the caller has seen")]


ACTION = documented(404, 409)
REPEATED: Responses = {200: {"model": Run, "description": "Accepted before"}}


@router.post("", status_code=201, responses=REPEATED | ACTION)
def submit(
    body: Submission,
    response: Response,
    database: DatabaseDep,
    settings: SettingsDep,
    bell: BellDep,
    identity: IdentityDep,
    idempotency_key: IdempotencyKey = None,
) -> Run:
    """Accepts a run. From here on it reaches a terminal state, whatever fails in between."""
    config = usable(body.config, settings)
    start_after = body.start_after.timestamp() if body.start_after else None
    source = body.source.model_dump() if body.source else None

    def submit() -> tuple[Run, bool]:
        with database.write() as session:
            place = projects.place_for(session, identity, body.project_id)
            wishes = runs.Wishes(
                tuple(body.tags), body.priority, body.needs or "", start_after, identity.user_name, place.id, body.notes, source
            )
            run, is_new = runs.submit(session, config, wishes, idempotency_key)
            return Run.model_validate(run), is_new

    return accepted(response, bell, submit)


@router.post("/validate")
def validate(body: ConfigCheck, settings: SettingsDep) -> Validation:
    """Checks a configuration, its model folder and its data without submitting it; of a valid one all defaults, and what it changes."""
    try:
        config = usable(body.config, settings).model_dump(mode="json")
    except InvalidError as error:
        return Validation(valid=False, errors=error.errors)
    differences = [] if body.base is None else config_diff({"base": body.base, "config": config})
    return Validation(valid=True, errors=[], config=config, differences=differences)


@router.get("", responses=documented(404))
def list_runs(session: Reading, choice: ChoiceDep, limit: Limit = 50, cursor: LongCursor = None) -> RunPage:
    """Those chosen, newest first unless ``sort`` says otherwise; runs without a value to sort by come last."""
    return RunPage.from_rows(listed(session, choice, limit, cursor))


@router.get("/{run_id}", responses=documented(404))
def get_run(run: RunDep, response: Response) -> Run:
    """Its ETag stands for what a PATCH changes."""
    return _tagged(response, Run.model_validate(run))


@router.patch("/{run_id}", responses=documented(404, 412))
def change_run(run_id: str, body: RunChange, response: Response, database: DatabaseDep, if_match: IfMatch = None) -> Run:
    """Changes name, notes, tags or priority; with If-Match only if nobody else has done so since, or else it is refused with 412."""
    with database.write() as session:
        return _tagged(response, Run.model_validate(runs.change(session, run_id, body, if_match)))


@router.get("/{run_id}/attempts", responses=documented(404))
def list_attempts(run: RunDep, session: Reading) -> Items[Attempt]:
    """Each try to carry the run, first to last: by which worker, how it ended, and in what it ran."""
    return Items[Attempt].of(attempts.attempts(session, run.id))


@router.post("/{run_id}/cancel", responses=ACTION)
def cancel(run_id: str, database: DatabaseDep) -> Run:
    """A run that waits is cancelled at once, an active one within seconds; a finished one is refused with 409."""
    with database.write() as session:
        return Run.model_validate(control.cancel(session, run_id))


@router.post("/{run_id}/pause", responses=ACTION)
def pause(run_id: str, database: DatabaseDep) -> Run:
    """A queued run is paused at once; an active one stops at its next step boundary, with a checkpoint, and frees its worker."""
    with database.write() as session:
        return Run.model_validate(control.pause(session, run_id))


@router.post("/{run_id}/resume", responses=ACTION)
def resume(run_id: str, database: DatabaseDep, bell: BellDep) -> Run:
    """A paused run is queued again and goes on from its last checkpoint; one that was about to pause goes on."""
    with database.write() as session:
        run = Run.model_validate(control.resume(session, run_id))
    bell.ring()
    return run


@router.post("/{run_id}/retry", status_code=201, responses=REPEATED | ACTION)
def retry(
    run_id: str, response: Response, database: DatabaseDep, settings: SettingsDep, bell: BellDep, idempotency_key: IdempotencyKey = None
) -> Run:
    """A new run that goes on from the last verified checkpoint of a failed or cancelled one: after ``resumed_step``, null: it had none."""
    return accepted(response, bell, lambda: copies.retry(database, settings, run_id, idempotency_key))


@router.post("/{run_id}/clone", status_code=201, responses=REPEATED | ACTION)
def clone(
    run_id: str,
    body: Copy,
    response: Response,
    database: DatabaseDep,
    settings: SettingsDep,
    bell: BellDep,
    identity: IdentityDep,
    idempotency_key: IdempotencyKey = None,
) -> Run:
    """A new run of one's own with the same configuration, but for the fields that ``config`` names, from the beginning."""
    return accepted(response, bell, lambda: copies.clone(database, settings, run_id, body, identity.user_name, idempotency_key))


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
    response.headers["etag"] = runs.entity_tag(run.revision)
    return run


def accepted(response: Response, bell: Bell, accept: Callable[[], tuple[Run, bool]]) -> Run:
    try:
        run, is_new = accept()
    except IntegrityError:  # the same Idempotency-Key was accepted meanwhile: now it is found
        run, is_new = accept()
    bell.ring()
    response.status_code = 201 if is_new else 200
    return run
