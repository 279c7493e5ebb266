"""Typed client of the REST API; the CLI and the dashboard are built on it."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel

from backend.schemas import (
    Artifact,
    Comparison,
    DrafterSession,
    FieldError,
    Items,
    Lengths,
    LogLine,
    Metrics,
    Preset,
    Problem,
    Run,
    RunPage,
    SampleItem,
    Span,
    SpeculationStep,
    Validation,
)
from backend.settings import Settings

Reply = TypeVar("Reply", bound=BaseModel)
_CHUNK = 2**20
_PAST_THE_PROXY: Mapping[str, None] = {"all://127.0.0.1": None, "all://localhost": None}


class ApiError(Exception):
    """What the server refused and why; status 0 if no server answered."""

    def __init__(self, status: int, title: str, detail: str, errors: Sequence[FieldError] = ()) -> None:
        faults = "; ".join(f"{error.field}: {error.message}" for error in errors)
        super().__init__(f"{detail}: {faults}" if faults else detail)
        self.status, self.title, self.detail, self.errors = status, title, detail, list(errors)


def discover() -> str:
    """The server's base URL: LONGTAIL_URL, else the one that ``longtail up`` noted in the data folder, else the default port."""
    if url := os.environ.get("LONGTAIL_URL"):
        return url
    settings = Settings()
    if settings.server_file.is_file():
        return str(json.loads(settings.server_file.read_text(encoding="utf-8"))["url"])
    return f"http://127.0.0.1:{settings.port}"


class Longtail:
    """``with Longtail() as longtail: run = longtail.submit({"name": "first"})``. Every method raises ApiError.

    ``since_step`` (default -1: everything) asks for later steps only, ``since`` for log lines with a higher id.
    """

    def __init__(self, base_url: str | None = None, timeout: float = 30.0) -> None:
        self.base_url = (base_url or discover()).rstrip("/")
        self._http = httpx.Client(base_url=self.base_url, timeout=timeout, mounts=_PAST_THE_PROXY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def schema(self) -> dict[str, Any]:
        """JSON schema of RunConfig."""
        schema: dict[str, Any] = self._request("GET", "/api/v1/schema").json()
        return schema

    def presets(self) -> list[Preset]:
        return self._get(Items[Preset], "/api/v1/presets").items

    def validate(self, config: Mapping[str, Any]) -> Validation:
        return self._reply(Validation, self._request("POST", "/api/v1/runs/validate", json={"config": config}))

    def submit(
        self,
        config: Mapping[str, Any],
        tags: Sequence[str] = (),
        idempotency_key: str | None = None,
        *,
        priority: int = 0,
        needs: str | None = None,
        start_after: datetime | None = None,
    ) -> Run:
        """With an ``idempotency_key`` a repeated submission returns the run of the first one; that goes for ``retry`` and ``clone`` too.

        ``needs``: a worker label; None for any worker. ``start_after`` has to know its time zone.
        """
        wishes = {"priority": priority, "needs": needs, "start_after": start_after and start_after.isoformat()}
        return self._accept("/api/v1/runs", {"config": config, "tags": list(tags)} | wishes, idempotency_key)

    def runs(self, state: str | None = None, q: str | None = None, limit: int = 50, cursor: str | None = None) -> RunPage:
        """Newest first. ``q`` is a part of the name or the beginning of the id."""
        return self._get(RunPage, "/api/v1/runs", state=state, q=q, limit=limit, cursor=cursor)

    def run(self, run_id: str) -> Run:
        return self._get(Run, f"/api/v1/runs/{run_id}")

    def cancel(self, run_id: str) -> Run:
        return self._do(run_id, "cancel")

    def pause(self, run_id: str) -> Run:
        """At the next step boundary."""
        return self._do(run_id, "pause")

    def resume(self, run_id: str) -> Run:
        return self._do(run_id, "resume")

    def retry(self, run_id: str, idempotency_key: str | None = None) -> Run:
        """A new run that goes on after the step ``resumed_step`` of a failed or cancelled one; None is from the beginning."""
        return self._accept(f"/api/v1/runs/{run_id}/retry", None, idempotency_key)

    def clone(
        self,
        run_id: str,
        config: Mapping[str, Any] | None = None,
        tags: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """A new run with the fields that ``config`` names changed."""
        body = {"config": dict(config or {}), "tags": tags and list(tags)}
        return self._accept(f"/api/v1/runs/{run_id}/clone", body, idempotency_key)

    def delete(self, run_id: str) -> None:
        """A finished run; ``restore`` takes it back."""
        self._request("DELETE", f"/api/v1/runs/{run_id}")

    def restore(self, run_id: str) -> Run:
        return self._do(run_id, "restore")

    def metrics(self, run_id: str, keys: Sequence[str] = (), since_step: int = -1) -> Metrics:
        """All series, or those of ``keys``."""
        return self._get(Metrics, f"/api/v1/runs/{run_id}/metrics", keys=",".join(keys) or None, since_step=since_step)

    def lengths(self, run_id: str, since_step: int = -1) -> list[Lengths]:
        return self._get(Items[Lengths], f"/api/v1/runs/{run_id}/lengths", since_step=since_step).items

    def spans(self, run_id: str, since_step: int = -1) -> list[Span]:
        return self._get(Items[Span], f"/api/v1/runs/{run_id}/spans", since_step=since_step).items

    def speculation(self, run_id: str, since_step: int = -1) -> list[SpeculationStep]:
        return self._get(Items[SpeculationStep], f"/api/v1/runs/{run_id}/speculation", since_step=since_step).items

    def drafters(self, run_id: str, since_step: int = -1) -> list[DrafterSession]:
        return self._get(Items[DrafterSession], f"/api/v1/runs/{run_id}/drafters", since_step=since_step).items

    def samples(self, run_id: str, since_step: int = -1, limit: int = 100) -> list[SampleItem]:
        """The latest ``limit`` of them, oldest first."""
        return self._get(Items[SampleItem], f"/api/v1/runs/{run_id}/samples", since_step=since_step, limit=limit).items

    def logs(self, run_id: str, since: int = 0) -> list[LogLine]:
        return self._get(Items[LogLine], f"/api/v1/runs/{run_id}/logs", since=since).items

    def artifacts(self, run_id: str) -> list[Artifact]:
        return self._get(Items[Artifact], f"/api/v1/runs/{run_id}/artifacts").items

    def artifact_url(self, artifact_id: str) -> str:
        """Address of the file, for a link."""
        return f"{self.base_url}/api/v1/artifacts/{artifact_id}/download"

    def download(self, artifact_id: str, path: Path) -> None:
        """Writes the artifact to ``path``, whole and with the right checksum or not at all."""
        part = path.with_name(path.name + ".part")
        digest = hashlib.sha256()
        try:
            with self._http.stream("GET", self.artifact_url(artifact_id)) as response, part.open("wb") as file:
                _raise_for_problem(response)
                for chunk in response.iter_bytes(_CHUNK):
                    digest.update(chunk)
                    file.write(chunk)
            if digest.hexdigest() != response.headers["x-sha256"]:
                raise ApiError(0, "Bad checksum", f"{path.name} arrived damaged; download it again")
            part.replace(path)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        finally:
            part.unlink(missing_ok=True)

    def compare(self, baseline: str, runs: Sequence[str]) -> Comparison:
        """The baseline comes first in ``items``, then ``runs``."""
        return self._get(Comparison, "/api/v1/compare", baseline=baseline, run=list(runs))

    def _do(self, run_id: str, action: str) -> Run:
        return self._reply(Run, self._request("POST", f"/api/v1/runs/{run_id}/{action}"))

    def _accept(self, path: str, body: Any, idempotency_key: str | None) -> Run:
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._reply(Run, self._request("POST", path, json=body, headers=headers))

    def _get(self, schema: type[Reply], path: str, **params: Any) -> Reply:
        given = {name: value for name, value in params.items() if value is not None}
        return self._reply(schema, self._request("GET", path, params=given))

    @staticmethod
    def _reply(schema: type[Reply], response: httpx.Response) -> Reply:
        return schema.model_validate_json(response.content)

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        _raise_for_problem(response)
        return response

    def _unreachable(self, error: httpx.TransportError) -> ApiError:
        return ApiError(0, "No server", f"no Longtail server answers at {self.base_url} ({error}); start one with: longtail up")


def _raise_for_problem(response: httpx.Response) -> None:
    if response.is_success:
        return
    response.read()
    if "json" not in response.headers.get("content-type", ""):
        raise ApiError(response.status_code, response.reason_phrase, f"{response.request.url}: {response.text[:200]}")
    problem = Problem.model_validate_json(response.content)
    raise ApiError(problem.status, problem.title, problem.detail, problem.errors)
