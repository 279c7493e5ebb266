"""Files of runs: what they are, downloads, uploads."""

import shutil
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from backend.api.dependencies import Cursor, DatabaseDep, IdentityDep, Limit, ReadSession, SettingsDep, StoreDep, UnauditedDatabase
from backend.api.entity_tags import UNCHANGED, IfNoneMatch, is_named, unchanged
from backend.api.error_responses import Responses, documented
from backend.api.location import point_to
from backend.api.run_filter import RunId, Text
from backend.errors import RequestError, StorageFullError
from backend.services.artifacts import registry
from backend.services.artifacts.listing import ArtifactFilter, page_of_artifacts
from backend.services.artifacts.upload_validation import check_upload
from backend.services.projects import membership_check
from backend.services.runs import lookup
from backend.settings import Settings
from backend.storage import range_requests
from backend.storage.staging import Staged, staging
from backend.storage.store import Store
from longtail.file_chunks import CHUNK
from longtail.schemas.artifacts import Artifact, ArtifactCard, ArtifactPage, ArtifactType, FileName
from longtail.schemas.credentials import private_folder

router = APIRouter(tags=["artifacts"])

FILE: Responses = {200: {"content": {"application/octet-stream": {}}}, 206: {"description": "The range asked for"}}
KNOWN: Responses = {200: {"model": Artifact, "description": "The run has this content under this name already"}}
SEARCHED = "A part of its name, of its run's name or of the base model; or the beginning of the run's id or of the checksum"
BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.get("/artifacts", responses=documented(404))
def list_artifacts(
    identity: IdentityDep,
    session: ReadSession,
    type: Annotated[list[ArtifactType], Query(default_factory=list, max_length=4, description="Of one of these types")],
    run: Annotated[str | None, Query(pattern=r"^[0-9a-f]{16}$", description="Of the run with this id")] = None,
    project: Annotated[RunId | None, Query(description="Id of a project; else all that are in sight and not archived")] = None,
    q: Annotated[Text | None, Query(description=SEARCHED)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ArtifactPage:
    """Those of all runs in sight, newest first."""
    wanted = ArtifactFilter(membership_check.chosen_projects(session, identity, project), type, run, q)
    return ArtifactPage.from_rows(page_of_artifacts(session, wanted, limit, cursor))


@router.get("/artifacts/{artifact_id}", responses=documented(404))
def get_artifact(artifact_id: str, session: ReadSession) -> ArtifactCard:
    """With the text of its model card."""
    return ArtifactCard.model_validate(registry.find(session, artifact_id))


@router.get("/artifacts/{artifact_id}/download", response_class=StreamingResponse, responses=FILE | UNCHANGED | documented(404, 416))
def download(
    artifact_id: str, request: Request, database: UnauditedDatabase, settings: SettingsDep, store: StoreDep, if_none_match: IfNoneMatch = ""
) -> Response:
    """The file, whole or by Range (If-Range with the ETag, which is its SHA-256 in quotes); x-sha256 is the checksum of the whole."""
    with database.read() as session:  # which ends before the download, however long that takes
        content = registry.content(session, settings, store, artifact_id)
    tag = range_requests.entity_tag(content)
    return unchanged(tag) if is_named(if_none_match, tag) else range_requests.download(request, content)


@router.post("/runs/{run_id}/artifacts", status_code=201, responses=KNOWN | documented(404, 409, 415, 507), openapi_extra=BODY)
async def upload_artifact(
    run_id: str,
    request: Request,
    response: Response,
    database: DatabaseDep,
    settings: SettingsDep,
    store: StoreDep,
    name: FileName,
    type: ArtifactType = "file",
    x_sha256: Annotated[str, Header(pattern=r"^([0-9a-f]{64})?$", description="Refuse what does not arrive with this checksum")] = "",
) -> Artifact:
    """Keeps a file with a run: safetensors, JSON, text, or a .zip or .tar of those. Other content under a name is its next version."""
    await run_in_threadpool(_demand, database, settings, store, run_id, int(request.headers.get("content-length", "0")))
    with staging(store.incoming) as staged:
        await _receive(request, staged)
        registry.check_checksum(staged, x_sha256)
        check = partial(check_upload, name, staged.path, settings.max_artifact_bytes)
        card = await run_sync(check, limiter=request.app.state.upload_checks)
        artifact, is_new = await run_in_threadpool(registry.store_upload, database, store, run_id, staged, name, type, card)
    if is_new:
        point_to(response, "artifacts", artifact.id)
    response.status_code = 201 if is_new else 200
    return artifact


@router.delete("/artifacts/{artifact_id}", status_code=204, responses=documented(404))
def delete_artifact(artifact_id: str, database: DatabaseDep) -> None:
    """For good. Its content goes when no artifact has it any more."""
    with database.write() as session:
        session.delete(registry.find(session, artifact_id))


def _demand(database: DatabaseDep, settings: Settings, store: Store, run_id: str, size: int) -> None:
    """Before the first byte: that there is such a run, and space."""
    with database.read() as session:
        lookup.find(session, run_id)
    if shutil.disk_usage(private_folder(store.incoming)).free - size < settings.least_free_bytes:
        raise StorageFullError(f"the server has no space for {size} bytes more")


async def _receive(request: Request, staged: Staged) -> None:
    try:
        async for chunk in _joined(request.stream()):
            await run_in_threadpool(staged.write, chunk)
        await run_in_threadpool(staged.seal)
    except ClientDisconnect:
        raise RequestError("the upload broke off") from None
    except OSError as error:
        raise StorageFullError(f"the server could not write it: {error.strerror}") from None


async def _joined(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Small parts together, as each costs a change of thread."""
    waiting = bytearray()
    async for part in parts:
        waiting += part
        if len(waiting) >= CHUNK:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)
