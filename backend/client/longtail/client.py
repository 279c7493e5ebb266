"""The client: its methods about runs, and those of the other files of this folder."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel

from longtail.files import Files
from longtail.follow_and_track import FollowAndTrack
from longtail.plans import Plans
from longtail.queue import Queue
from longtail.schemas.attempts import GitState
from longtail.schemas.base import Items, StepItems
from longtail.schemas.comparison import Comparison
from longtail.schemas.models import Model
from longtail.schemas.run_statistics import RunStatistics
from longtail.schemas.runs import Preset, Run
from longtail.schemas.telemetry import (
    Decoding,
    DrafterSession,
    Lengths,
    Level,
    LogLine,
    MetricKey,
    Metrics,
    Outcome,
    PretrainingRound,
    PretrainingRounds,
    SampleItem,
    SpeculationStep,
    WorkerSpan,
)
from longtail.schemas.validation import Validation
from longtail.transport import ApiError, last_part, sendable
from longtail.webhooks import Webhooks

Row = TypeVar("Row", bound=BaseModel)


class Longtail(Files, FollowAndTrack, Plans, Queue, Webhooks):
    """``with Longtail() as longtail: run = longtail.submit({"name": "first"})``. Every method raises ApiError.

    Without a URL and a token it finds them by itself (longtail.logins). ``since_step`` (default -1: everything) asks for later steps
    only, ``until_step`` for none after that one, ``every`` for the first that has any of so many steps, ``since`` for log lines with a
    higher id.
    """

    def schema(self) -> dict[str, Any]:
        """JSON schema of RunConfig."""
        schema: dict[str, Any] = self._request("GET", "/api/v1/schema").json()
        return schema

    def presets(self) -> list[Preset]:
        return self._get(Items[Preset], "/api/v1/presets").items

    def models(self) -> list[Model]:
        """Those that a run can name as model.path, on the host of the API."""
        return self._get(Items[Model], "/api/v1/models").items

    def validate(self, config: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> Validation:
        """Its faults; of a valid one what it says in full, and how it differs from the configuration ``base``."""
        body = {"config": sendable(config), "base": base and sendable(base)}
        return self._reply(Validation, self._request("POST", "/api/v1/runs/validate", json=body))

    def submit(
        self,
        config: Mapping[str, Any],
        tags: Sequence[str] = (),
        idempotency_key: str | None = None,
        *,
        priority: int = 0,
        needs: str | None = None,
        start_after: datetime | None = None,
        project_id: str | None = None,
        notes: str = "",
        source: GitState | None = None,
    ) -> Run:
        """With an ``idempotency_key`` a repeated submission returns the run of the first one; that goes for ``retry`` and ``clone`` too.

        ``needs``: a worker label; None for any worker. ``start_after`` has to know its time zone. ``project_id`` None is the token's
        project, or else the default one. ``source`` is the git state of the folder that the run comes from.
        """
        options = {"priority": priority, "needs": needs, "start_after": start_after and start_after.isoformat()}
        place = {"project_id": project_id, "notes": notes, "source": source and source.model_dump()}
        return self._accept("/api/v1/runs", {"config": sendable(config), "tags": list(tags)} | options | place, idempotency_key)

    def run(self, run_id: str) -> Run:
        return self._get(Run, f"/api/v1/runs/{last_part(run_id)}")

    def cancel(self, run_id: str) -> Run:
        return self._do(run_id, "cancel")

    def pause(self, run_id: str) -> Run:
        """At the next step boundary, or after the round of a pretraining."""
        return self._do(run_id, "pause")

    def resume(self, run_id: str) -> Run:
        return self._do(run_id, "resume")

    def retry(self, run_id: str, idempotency_key: str | None = None) -> Run:
        """A new run that goes on after the step ``resumed_step`` of a failed or cancelled one; None is from the beginning, -1 with
        pretraining its drafter."""
        return self._accept(f"/api/v1/runs/{run_id}/retry", None, idempotency_key)

    def clone(
        self,
        run_id: str,
        config: Mapping[str, Any] | None = None,
        tags: Sequence[str] | None = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> Run:
        """A new run with the fields that ``config`` names changed; ``priority``, ``needs`` and ``notes`` as in ``submit``."""
        body = {"config": sendable(config or {}), "tags": None if tags is None else list(tags)} | options
        return self._accept(f"/api/v1/runs/{run_id}/clone", body, idempotency_key)

    def delete(self, run_id: str) -> None:
        """A finished run; ``restore`` takes it back."""
        self._request("DELETE", f"/api/v1/runs/{run_id}")

    def restore(self, run_id: str) -> Run:
        return self._do(run_id, "restore")

    def metrics(
        self, run_id: str, keys: Sequence[str] = (), since_step: int = -1, points: int | None = None, *, prefix: str = ""
    ) -> Metrics:
        """All series, or those of ``keys`` or whose key begins with ``prefix``; one of more than ``points`` points (the server's default if
        None) as an envelope."""
        wanted = {"keys": ",".join(keys) or None, "prefix": prefix or None, "since_step": since_step, "points": points}
        return self._get(Metrics, f"/api/v1/runs/{run_id}/metrics", **wanted)

    def metric_keys(self, run_id: str) -> list[MetricKey]:
        """What series there are, and their latest values."""
        return self._get(Items[MetricKey], f"/api/v1/runs/{run_id}/metrics/keys").items

    def statistics(self, run_id: str) -> RunStatistics:
        """What all of its steps come to."""
        return self._get(RunStatistics, f"/api/v1/runs/{run_id}/statistics")

    def lengths(self, run_id: str, since_step: int = -1, until_step: int | None = None, *, every: int = 1) -> list[Lengths]:
        return self._steps(Lengths, run_id, "lengths", since_step, until_step, every)

    def spans(self, run_id: str, since_step: int = -1, until_step: int | None = None, *, every: int = 1) -> list[WorkerSpan]:
        return self._steps(WorkerSpan, run_id, "spans", since_step, until_step, every)

    def decoding(self, run_id: str, since_step: int = -1, until_step: int | None = None, *, every: int = 1) -> list[Decoding]:
        return self._steps(Decoding, run_id, "decoding", since_step, until_step, every)

    def speculation(self, run_id: str, since_step: int = -1, until_step: int | None = None, *, every: int = 1) -> list[SpeculationStep]:
        return self._steps(SpeculationStep, run_id, "speculation", since_step, until_step, every)

    def drafters(self, run_id: str, since_step: int = -1, every: int = 1) -> list[DrafterSession]:
        return self._steps(DrafterSession, run_id, "drafters", since_step, every=every)

    def pretraining(self, run_id: str, since_round: int = -1, every: int = 1) -> list[PretrainingRound]:
        """The rounds in which its drafter was trained before the first step, after ``since_round``."""
        rounds: list[PretrainingRound] = []
        after: int | None = since_round
        while after is not None:
            found = self._get(PretrainingRounds, f"/api/v1/runs/{run_id}/pretraining", since_round=after, every=every)
            rounds += found.items
            after = found.next_since_round
        return rounds

    def samples(
        self,
        run_id: str,
        since_step: int = -1,
        limit: int = 100,
        *,
        step: int | None = None,
        outcome: Outcome | None = None,
        contains: str = "",
        prompt: str | None = None,
        longest: bool = False,
    ) -> list[SampleItem]:
        """The latest ``limit`` of them, or the ``longest``, oldest first; only of one ``step``, ``outcome`` or ``prompt``, or with a text,
        if that is given. Without a step they are looked for among the latest SEARCHED_SAMPLES."""
        wanted = {"since_step": since_step, "step": step, "limit": limit, "outcome": outcome, "contains": contains or None}
        wanted |= {"prompt": prompt, "longest": longest or None}
        return self._get(Items[SampleItem], f"/api/v1/runs/{run_id}/samples", **wanted).items

    def logs(
        self,
        run_id: str,
        since: int = 0,
        *,
        before: int | None = None,
        tail: int | None = None,
        levels: Sequence[Level] = (),
        contains: str = "",
    ) -> list[LogLine]:
        """The first thousand at most, or the last ``tail``, of the lines between the ids ``since`` and ``before`` that are as wished."""
        wanted = {"before": before, "tail": tail, "level": list(levels) or None, "contains": contains or None}
        return self._get(Items[LogLine], f"/api/v1/runs/{run_id}/logs", since=since, **wanted).items

    def compare(self, baseline: str, runs: Sequence[str], keys: Sequence[str] = (), points: int = 500) -> Comparison:
        """The baseline comes first in ``items``, then ``runs``; ``metrics`` has those of ``keys``, in at most so many points."""
        params = {"keys": ",".join(keys) or None, "points": points}
        return self._get(Comparison, "/api/v1/compare", baseline=baseline, run=list(runs), **params)

    def _steps(
        self, schema: type[Row], run_id: str, what: str, since_step: int, until_step: int | None = None, every: int = 1
    ) -> list[Row]:
        rows: list[Row] = []
        after: int | None = since_step
        while after is not None:
            wanted = {"since_step": after, "until_step": until_step, "every": every}
            found: StepItems[Row] = self._get(StepItems[schema], f"/api/v1/runs/{run_id}/{what}", **wanted)  # type: ignore[valid-type]
            rows += found.items
            after = found.next_since_step
        return rows

    def _do(self, run_id: str, action: str) -> Run:
        return self._reply(Run, self._request("POST", f"/api/v1/runs/{run_id}/{action}"))

    def _accept(self, path: str, body: Any, idempotency_key: str | None) -> Run:
        """If the answer gets lost it is asked for once more, which the key makes harmless."""
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        try:
            response = self._request("POST", path, json=body, headers=headers)
        except ApiError as error:
            if error.status or isinstance(error.__cause__, httpx.ConnectError):
                raise
            response = self._request("POST", path, json=body, headers=headers)
        return self._reply(Run, response)
