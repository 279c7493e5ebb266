"""Runs: submit, find, cancel."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from backend.api.deps import BellDep, DatabaseDep, Reading, RunDep
from backend.api.problems import Responses, documented
from backend.errors import InvalidError
from backend.schemas import ConfigCheck, Run, RunPage, RunState, Submission, Validation
from backend.services import runs
from backend.services.validation import usable

router = APIRouter(prefix="/runs", tags=["runs"])

IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=200, description="Makes a repeated submission give the first run")]


REPEATED: Responses = {200: {"model": Run, "description": "Accepted before"}}


@router.post("", status_code=201, responses=REPEATED | documented(409))
def submit(body: Submission, response: Response, database: DatabaseDep, bell: BellDep, idempotency_key: IdempotencyKey = None) -> Run:
    """Accepts a run. From here on it reaches a terminal state, whatever fails in between."""
    config = usable(body.config)
    with database.write() as session:
        run, is_new = runs.submit(session, config, body.tags, idempotency_key)
        accepted = Run.model_validate(run)
    bell.ring()
    response.status_code = 201 if is_new else 200
    return accepted


@router.post("/validate")
def validate(body: ConfigCheck) -> Validation:
    """Checks a configuration, its model folder and its data without submitting it."""
    try:
        usable(body.config)
    except InvalidError as error:
        return Validation(valid=False, errors=error.errors)
    return Validation(valid=True, errors=[])


@router.get("")
def list_runs(
    session: Reading,
    state: RunState | None = None,
    q: Annotated[
        str | None, Query(max_length=200, pattern=r"^[^\x00]*$", description="A part of the name, or the beginning of the id")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="next_cursor of the page before")] = None,
) -> RunPage:
    """Newest first."""
    found, next_cursor = runs.page(session, state, q, limit, cursor)
    return RunPage(items=[Run.model_validate(run) for run in found], next_cursor=next_cursor)


@router.get("/{run_id}", responses=documented(404))
def get_run(run: RunDep) -> Run:
    return Run.model_validate(run)


@router.post("/{run_id}/cancel", responses=documented(404, 409))
def cancel(run_id: str, database: DatabaseDep) -> Run:
    """A queued run is cancelled at once, an active one within seconds; a finished one is refused with 409."""
    with database.write() as session:
        return Run.model_validate(runs.cancel(session, run_id))
