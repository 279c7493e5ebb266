"""What happens in a run, pushed."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from backend.api.dependencies import LineId, SettingsDep, UnauditedDatabase
from backend.api.error_responses import documented
from backend.errors import NotFoundError, TooManyRequestsError
from backend.services.runs import lookup
from backend.services.telemetry.event_stream import POSITION, StreamPosition, new_items
from backend.services.telemetry.log_lines import LOG_LINES
from longtail.schemas.runs import Run

POLL_SECONDS = 0.5
LONGEST_SECONDS = 300.0
"""Then the reader has to come again, and to show its token again."""
FULL_SECONDS = 5.0

router = APIRouter(prefix="/runs/{run_id}", tags=["events"], responses=documented(404))


def _known(run_id: str, database: UnauditedDatabase) -> str:
    with database.read() as session:
        return lookup.find(session, run_id).id


async def _seat(request: Request, settings: SettingsDep) -> AsyncIterator[None]:
    """One of the few streams that may be open."""
    state = request.app.state
    if state.streams >= settings.event_streams:
        raise TooManyRequestsError(
            f"{state.streams} streams of events are open, which is the most; poll instead, or come later", FULL_SECONDS
        )
    state.streams += 1
    try:
        yield
    finally:
        state.streams -= 1


@router.get("/events", response_class=EventSourceResponse, dependencies=[Depends(_seat)])
async def events(
    run_id: Annotated[str, Depends(_known)],
    database: UnauditedDatabase,
    last_event_id: Annotated[str | None, Header(pattern=POSITION, description="Where an earlier stream broke off")] = None,
    since: LineId = 0,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events until the run is finished: ``log`` for each of its lines (a LogLine), and ``run`` for the run (a Run) at first
    and whenever it changes. With Last-Event-ID it goes on
    after that event, whatever ``since`` is. After five minutes it ends, to be opened again."""
    position = StreamPosition.parse(last_event_id) if last_event_id else StreamPosition(since)
    until = time.monotonic() + LONGEST_SECONDS
    finished = False
    while not finished and time.monotonic() < until:
        try:
            happened, finished = await run_in_threadpool(new_items, database, run_id, position)
        except NotFoundError:  # deleted meanwhile
            return
        for one in happened:
            position = one.position
            yield ServerSentEvent(data=one.what, event="run" if isinstance(one.what, Run) else "log", id=str(position))
        if len(happened) < LOG_LINES and not finished:
            await asyncio.sleep(POLL_SECONDS)
