"""The client's methods for runs as they happen: to follow one, and to tell of one."""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx

from longtail import sse
from longtail.run_lists import RunLists
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import LogLine
from longtail.schemas.tracking import NewBatch, Receipt
from longtail.tracker import End, Tracker
from longtail.transport import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, ApiError, patiently, sendable

LAST_LINE = 2**31 - 1
BEGIN_SECONDS = 15.0
QUIET_SECONDS = 45.0
"""After which a stream of events, in which something comes every 15 s, counts as broken."""


class FollowAndTrack(RunLists):
    def follow(self, run_id: str, since: int = 0, patience: float = 60.0) -> Iterator[Run | LogLine]:
        """The run at first and whenever it changes, and each of its lines with an id above ``since`` once, until the run is finished.

        If the connection breaks off it goes on where that was; ApiError if the server is away for ``patience`` seconds.
        """
        place: dict[str, str] = {}
        pause, until = FIRST_PAUSE_SECONDS, time.monotonic() + patience
        while True:
            try:
                for event in self._events(run_id, since, place):
                    place = {"Last-Event-ID": event.id}
                    happened = (Run if event.kind == "run" else LogLine).model_validate_json(event.data)
                    yield happened
                    if isinstance(happened, Run) and happened.finished:
                        return
                    pause, until = FIRST_PAUSE_SECONDS, time.monotonic() + patience
            except ApiError as error:
                if not error.passes or time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def changes(self, run_id: str) -> Iterator[Run]:
        """The run at first and whenever it changes, until it is finished."""
        return (one for one in self.follow(run_id, LAST_LINE) if isinstance(one, Run))

    def track(
        self,
        name: str,
        config: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        steps: int = 0,
        *,
        project: str | None = None,
        patience: float = 600.0,
    ) -> Tracker:
        """Begins a run that this program carries out by itself, and tells of it; see Tracker. ``project`` is a name or an id."""
        project_id = None if project is None else patiently(lambda: self.project(project).id, BEGIN_SECONDS)
        return Tracker(self, self.begin(name, config, tags, steps, project_id), patience)

    def begin(
        self,
        name: str,
        config: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        steps: int = 0,
        project_id: str | None = None,
    ) -> Run:
        """A tracked run, for ``ingest`` and ``finish``. ``config`` is free; ``steps`` 0: nobody knows how many there will be.

        ``project_id`` None is the token's project, or else the default one.
        """
        body = {"name": name, "config": sendable(config or {}), "tags": list(tags), "steps": steps, "project_id": project_id}
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return patiently(lambda: self._reply(Run, self._request("POST", "/api/v1/runs/tracked", json=body, headers=headers)), BEGIN_SECONDS)

    def ingest(self, run_id: str, batch: NewBatch) -> Receipt:
        """Adds to a tracked run; the same batch may be sent again."""
        sent = {"content": batch.model_dump_json(), "headers": {"Content-Type": "application/json"}}
        return self._reply(Receipt, self._request("POST", f"/api/v1/runs/{run_id}/batches", **sent))

    def finish(self, run_id: str, state: End, error: str | None = None) -> Run:
        """Closes a tracked run."""
        return self._post(Run, f"/api/v1/runs/{run_id}/finish", {"state": state, "error": error})

    def _events(self, run_id: str, since: int, place: Mapping[str, str]) -> Iterator[sse.Event]:
        timeout = httpx.Timeout(self._http.timeout.connect, read=QUIET_SECONDS)
        path = f"/api/v1/runs/{run_id}/events"
        try:
            with self._http.stream("GET", path, params={"since": since}, headers=place, timeout=timeout) as response:
                self._raise_for_problem(response)
                yield from sse.parse(response.iter_lines())
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
