from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from backend.database import Database
from backend.models import Artifact
from backend.settings import Settings

SECRET = b"not for you"


def record(database: Database, run_id: str, path: str) -> str:
    with database.write() as session:
        artifact = Artifact(run_id=run_id, name="drafter.zip", type="drafter", path=path, bytes=10, sha256="0" * 64)
        session.add(artifact)
        session.flush()
        return artifact.id


@pytest.fixture
def folder(settings: Settings, run_id: str) -> Path:
    folder = settings.run_folder(run_id)
    (folder / "artifacts").mkdir(parents=True)
    (folder / "artifacts" / "drafter.zip").write_bytes(b"0123456789")
    (folder.parent / "secret").write_bytes(SECRET)
    (settings.home / "secret").write_bytes(SECRET)
    return folder


@pytest.mark.usefixtures("folder")
def test_an_artifact_is_listed_and_downloaded(api: TestClient, database: Database, run_id: str) -> None:
    artifact_id = record(database, run_id, "artifacts/drafter.zip")
    listed = api.get(f"/api/v1/runs/{run_id}/artifacts").json()["items"][0]
    assert set(listed) == {"id", "run_id", "name", "type", "bytes", "sha256", "metadata", "created_at"}
    reply = api.get(f"/api/v1/artifacts/{artifact_id}/download")
    assert (reply.status_code, reply.content, reply.headers["x-sha256"]) == (200, b"0123456789", "0" * 64)
    assert reply.headers["content-disposition"] == 'attachment; filename="drafter.zip"'
    part = api.get(f"/api/v1/artifacts/{artifact_id}/download", headers={"range": "bytes=3-5"})
    assert (part.status_code, part.content) == (206, b"345")
    beyond = api.get(f"/api/v1/artifacts/{artifact_id}/download", headers={"range": "bytes=100-"})
    assert beyond.status_code == 416


@pytest.mark.parametrize(
    "path",
    ["../secret", "../../secret", "artifacts/../../secret", "link", "linked/secret", "artifacts", ".", "", "gone", "a\0b", "{secret}"],
)
def test_no_record_leads_out_of_the_run_s_folder(
    api: TestClient, database: Database, settings: Settings, run_id: str, folder: Path, path: str
) -> None:
    if "\0" in path and settings.database_url:
        pytest.skip("PostgreSQL stores no NUL")
    (folder / "link").symlink_to(settings.home / "secret")
    (folder / "linked").symlink_to(settings.home)
    artifact_id = record(database, run_id, path.format(secret=settings.home / "secret"))
    reply = api.get(f"/api/v1/artifacts/{artifact_id}/download")
    assert reply.status_code == 404
    assert SECRET not in reply.content


@pytest.mark.parametrize(
    "artifact_id", ["../../secret", "..%2f..%2fsecret", "%2e%2e%2fsecret", "..\\secret", "a;b", "%00", "%252e%252e%252fsecret"]
)
@pytest.mark.usefixtures("folder")
def test_no_id_is_a_path(api: TestClient, artifact_id: str) -> None:
    reply = api.get(f"/api/v1/artifacts/{artifact_id}/download")
    assert reply.status_code == 404
    assert SECRET not in reply.content
