"""What happens in a run, pushed."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from backend.api.dependencies import IdentityDep, LineId, SettingsDep, UnauditedDatabase
from backend.api.error_responses import documented
from backend.database import Database
from backend.errors import ForbiddenError, NotFoundError, TooManyRequestsError, UnauthorizedError
from backend.services.identity import tokens
from backend.services.projects.membership_check import check_membership
from backend.services.runs import lookup
from backend.services.telemetry.event_stream import POSITION, StreamItem, StreamPosition, new_items
from backend.services.telemetry.log_lines import LOG_LINES
from longtail.schemas.runs import Run

POLL_SECONDS = 0.5
LONGEST_SECONDS = 300.0
"""Then the reader has to come again."""
FULL_SECONDS = 5.0

router = APIRouter(prefix="/runs/{run_id}", tags=["events"], responses=documented(404))


def _known(run_id: str, database: UnauditedDatabase) -> str:
    with database.read() as session:
        return lookup.find(session, run_id).id


async def _seat(request: Request, settings: SettingsDep, identity: IdentityDep) -> AsyncIterator[None]:
    """One of the few streams that may be open."""
    streams: Counter[str] = request.app.state.streams  # by the user's id
    for open_ones, most, whose in (
        (streams[identity.user_id], settings.event_streams_per_user, "of yours "),
        (streams.total(), settings.event_streams, ""),
    ):
        if open_ones >= most:
            message = f"{open_ones} streams of events {whose}are open, which is the most; poll instead, or come later"
            raise TooManyRequestsError(message, FULL_SECONDS)
    streams[identity.user_id] += 1
    try:
        yield
    finally:
        streams[identity.user_id] -= 1
        streams += Counter()  # forgets whoever has none


@router.get("/events", response_class=EventSourceResponse, dependencies=[Depends(_seat)])
async def events(
    run_id: Annotated[str, Depends(_known)],
    identity: IdentityDep,
    database: UnauditedDatabase,
    last_event_id: Annotated[str | None, Header(pattern=POSITION, description="Where an earlier stream broke off")] = None,
    since: LineId = 0,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events until the run is finished: ``log`` for each of its lines (a LogLine), and ``run`` for the run (a Run) at first
    and whenever it changes. With Last-Event-ID it goes on
    after that event, whatever ``since`` is. It ends with the right to see the run, and
    after five minutes, to be opened again."""
    position = StreamPosition.parse(last_event_id) if last_event_id else StreamPosition(since)
    until = time.monotonic() + LONGEST_SECONDS
    finished = False
    while not finished and time.monotonic() < until:
        try:
            happened, finished = await run_in_threadpool(_look, database, identity.token_id, run_id, position)
        except (UnauthorizedError, ForbiddenError, NotFoundError):  # revoked or deleted meanwhile
            return
        for one in happened:
            position = one.position
            yield ServerSentEvent(data=one.what, event="run" if isinstance(one.what, Run) else "log", id=str(position))
        if len(happened) < LOG_LINES and not finished:
            await asyncio.sleep(POLL_SECONDS)


def _look(database: Database, token_id: str, run_id: str, position: StreamPosition) -> tuple[Sequence[StreamItem], bool]:
    """As ``new_items``, for whoever may still see the run."""
    with database.read() as session:
        check_membership(session, tokens.still_valid(session, token_id), {"run_id": run_id}, "viewer")
    return new_items(database, run_id, position)
