"""Downloads."""

from fastapi import APIRouter
from fastapi.responses import FileResponse

from backend.api.deps import Reading, SettingsDep
from backend.api.problems import Responses, documented
from backend.services.artifacts import locate

router = APIRouter(prefix="/artifacts", tags=["artifacts"])


FILE: Responses = {200: {"content": {"application/octet-stream": {}}}, 206: {"description": "The range asked for"}}


@router.get("/{artifact_id}/download", response_class=FileResponse, responses=FILE | documented(404, 416))
def download(artifact_id: str, session: Reading, settings: SettingsDep) -> FileResponse:
    """The file, whole or by Range; x-sha256 is the checksum of the whole."""
    artifact, file = locate(session, settings, artifact_id)
    return FileResponse(file, media_type="application/octet-stream", filename=file.name, headers={"x-sha256": artifact.sha256})
