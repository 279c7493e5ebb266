import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given
from hypothesis import settings as trying
from hypothesis import strategies as st
from sizes import examples

from backend.api import create_app
from backend.database import Database
from backend.errors import RangeError
from backend.models import Artifact, AuditEntry, Run
from backend.settings import Settings
from backend.storage.open_store import open_store
from backend.storage.range_requests import parse_range
from longtail.schemas.artifacts import file_name

SECRET = b"not for you"
HOSTILE = (
    "..",
    "/",
    "\\",
    "%2e%2e",
    "%252e",
    "%2f",
    "%5c",
    ";",
    "\0",
    "%00",
    "secret",
    "home",
    "runs",
    ":",
    "\r\n",
    "~",
    "C:",
    "....//",
    " ",
)


@pytest.fixture(params=["", "memory"])
def settings(settings: Settings, request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    return settings.model_copy(update={"artifact_store": request.param and f"memory://{tmp_path}", "max_artifact_bytes": 3 * 2**20})


def record(database: Database, run_id: str, path: str) -> str:
    """An artifact as the engine leaves it, not stored yet."""
    with database.write() as session:
        artifact = Artifact(run_id=run_id, name="drafter.zip", type="drafter", path=path, bytes=10, sha256="0" * 64)
        session.add(artifact)
        session.flush()
        return artifact.id


def upload(api: TestClient, run_id: str, content: bytes, name: str = "notes.txt", status: int = 201, **headers: str) -> dict[str, Any]:
    reply = api.post(f"/api/v1/runs/{run_id}/artifacts", params={"name": name}, content=content, headers=headers)
    assert reply.status_code == status, reply.text
    body: dict[str, Any] = reply.json()
    return body


@pytest.fixture
def folder(settings: Settings, run_id: str) -> Path:
    folder = settings.run_folder(run_id)
    (folder / "artifacts").mkdir(parents=True)
    (folder / "artifacts" / "drafter.zip").write_bytes(b"0123456789")
    (folder.parent / "secret").write_bytes(SECRET)
    (settings.home / "secret").write_bytes(SECRET)
    return folder


@pytest.mark.usefixtures("folder")
def test_an_artifact_is_listed_and_downloaded_before_it_is_stored(api: TestClient, database: Database, run_id: str) -> None:
    artifact_id = record(database, run_id, "artifacts/drafter.zip")
    listed = api.get(f"/api/v1/runs/{run_id}/artifacts").json()["items"][0]
    shown = {"id", "run_id", "name", "version", "type", "bytes", "sha256", "metadata", "created_at", "stored", "missing"}
    assert set(listed) == shown
    assert set(api.get(f"/api/v1/artifacts/{artifact_id}").json()) == shown | {"card"}
    reply = api.get(f"/api/v1/artifacts/{artifact_id}/download")
    assert (reply.status_code, reply.content, reply.headers["x-sha256"]) == (200, b"0123456789", "0" * 64)
    assert reply.headers["content-disposition"] == 'attachment; filename="drafter.zip"'
    part = api.get(f"/api/v1/artifacts/{artifact_id}/download", headers={"range": "bytes=3-5"})
    assert (part.status_code, part.content) == (206, b"345")


def test_what_is_uploaded_comes_back_whole_and_in_ranges(api: TestClient, run_id: str) -> None:
    content = os.urandom(2**20).hex().encode()
    artifact = upload(api, run_id, content)
    digest = hashlib.sha256(content).hexdigest()
    assert (artifact["name"], artifact["version"], artifact["type"], artifact["bytes"]) == ("notes.txt", 1, "file", len(content))
    assert (artifact["sha256"], artifact["stored"], artifact["missing"]) == (digest, True, False)
    path = f"/api/v1/artifacts/{artifact['id']}/download"
    whole = api.get(path)
    assert whole.content == content
    assert (whole.headers["etag"], whole.headers["accept-ranges"]) == (f'"{digest}"', "bytes")
    middle = 2**20 - 7
    for asked, expected in ((f"bytes={middle}-", content[middle:]), ("bytes=-9", content[-9:]), ("bytes=0-0", content[:1])):
        part = api.get(path, headers={"range": asked, "if-range": whole.headers["etag"]})
        assert (part.status_code, part.content, part.headers["content-length"]) == (206, expected, str(len(expected)))
        assert part.headers["content-range"].endswith(f"/{len(content)}")
    changed = api.get(path, headers={"range": "bytes=5-", "if-range": '"other"'})
    assert (changed.status_code, changed.content) == (200, content)
    beyond = api.get(path, headers={"range": f"bytes={len(content)}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{len(content)}")
    assert beyond.headers["content-type"] == "application/problem+json"


def test_other_content_under_a_name_is_its_next_version(api: TestClient, run_id: str) -> None:
    first, second = upload(api, run_id, b"one"), upload(api, run_id, b"two")
    assert (first["version"], second["version"]) == (1, 2)
    assert upload(api, run_id, b"one", status=200) == first
    assert upload(api, run_id, b"one", "other.txt")["version"] == 1
    assert len(api.get(f"/api/v1/runs/{run_id}/artifacts").json()["items"]) == 3


@pytest.mark.parametrize(
    ("name", "content", "headers", "status", "said"),
    [
        ("model.pt", b"\x80\x04N.", {}, 415, "pickle"),
        ("model.safetensors", b"\x80\x04N.", {}, 415, "safetensors format"),
        ("notes.txt", b"damaged", {"x-sha256": "0" * 64}, 422, "arrived with the SHA-256"),
        ("notes.txt", b"a", {"x-sha256": "short"}, 422, "not valid"),
        ("../notes.txt", b"a", {}, 422, "not valid"),
        ("notes\0.txt", b"a", {}, 422, "not valid"),
        ("", b"a", {}, 422, "not valid"),
        ("a" * 129, b"a", {}, 422, "not valid"),
        ("notes.txt", b"a" * (3 * 2**20 + 1), {}, 413, "exceeds 3145728 bytes"),
    ],
)
def test_what_may_not_be_kept_leaves_nothing(
    api: TestClient, settings: Settings, run_id: str, name: str, content: bytes, headers: dict[str, str], status: int, said: str
) -> None:
    assert said in upload(api, run_id, content, name, status, **headers)["detail"]
    store = open_store(settings)
    assert (list(store.objects()), list(store.incoming.glob("*"))) == ([], [])
    assert api.get(f"/api/v1/runs/{run_id}/artifacts").json()["items"] == []


def test_a_body_that_does_not_say_its_length_ends_too(api: TestClient, settings: Settings, run_id: str) -> None:
    reply = api.post(f"/api/v1/runs/{run_id}/artifacts?name=a.txt", content=iter([b"a" * 2**20] * 4))
    assert reply.status_code == 413
    assert list(open_store(settings).incoming.glob("*")) == []


def test_only_where_files_go_may_a_body_be_large(api: TestClient, run_id: str) -> None:
    for path in (f"/api/v1/runs/{run_id}/cancel", f"/api/v1/runs/{run_id}/artifacts/", f"/api/v1/runs/{run_id}/x/artifacts"):
        assert api.post(path, content=b"a" * (2**20 + 1)).status_code == 413


def test_a_full_disk_is_said_before_the_body(settings: Settings, api: TestClient, run_id: str) -> None:
    with TestClient(create_app(settings.model_copy(update={"least_free_bytes": 2**60})), base_url="http://localhost") as full:
        full.headers = api.headers
        assert upload(full, run_id, b"a", status=507)["title"] == "Insufficient storage"


def test_deleted_is_gone_and_on_record(api: TestClient, database: Database, run_id: str) -> None:
    artifact = upload(api, run_id, b"a")
    path = f"/api/v1/artifacts/{artifact['id']}"
    assert api.delete(path).status_code == 204
    assert [api.get(path).status_code, api.get(f"{path}/download").status_code, api.delete(path).status_code] == [404] * 3
    with database.read() as session:
        entries = [(entry.action, entry.object) for entry in session.query(AuditEntry).order_by(AuditEntry.id)]
    what = f"artifacts/{artifact['id']}"
    assert entries[-2:] == [("upload_artifact", f"runs/{run_id} {what}"), ("delete_artifact", what)]


def test_a_deleted_run_s_artifacts_are_out_of_reach(api: TestClient, database: Database, run_id: str) -> None:
    artifact = upload(api, run_id, b"a")
    with database.write() as session:
        session.get_one(Run, run_id).deleted_at = time.time()
    path = f"/api/v1/artifacts/{artifact['id']}"
    assert [api.get(path).status_code, api.get(f"{path}/download").status_code, api.delete(path).status_code] == [404] * 3
    upload(api, run_id, b"b", status=404)


def test_content_that_is_gone_is_404(api: TestClient, settings: Settings, run_id: str) -> None:
    artifact = upload(api, run_id, b"a")
    open_store(settings).remove(artifact["sha256"])
    assert api.get(f"/api/v1/artifacts/{artifact['id']}/download").status_code == 404


@pytest.mark.parametrize(
    "path",
    ["../secret", "../../secret", "artifacts/../../secret", "link", "linked/secret", "artifacts", ".", "", "gone", "a\0b", "{secret}"],
)
def test_no_record_leads_out_of_the_run_s_folder(
    api: TestClient, database: Database, settings: Settings, run_id: str, folder: Path, path: str
) -> None:
    if "\0" in path and settings.database_url.startswith("postgresql"):
        pytest.skip("PostgreSQL stores no NUL")
    (folder / "link").symlink_to(settings.home / "secret")
    (folder / "linked").symlink_to(settings.home)
    artifact_id = record(database, run_id, path.format(secret=settings.home / "secret"))
    reply = api.get(f"/api/v1/artifacts/{artifact_id}/download")
    assert reply.status_code == 404
    assert SECRET not in reply.content


@pytest.mark.usefixtures("folder")
@trying(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=6))
def test_no_id_and_no_name_is_a_path(api: TestClient, settings: Settings, run_id: str, parts: list[str]) -> None:
    text = "".join(parts)
    before = {path: path.read_bytes() for path in settings.home.rglob("*secret*")}
    for method, path in (("GET", "{}"), ("GET", "{}/download"), ("DELETE", "{}")):
        for spelled in [text] * text.isprintable() + ["".join(f"%{byte:02x}" for byte in text.encode())]:
            reply = api.request(method, f"/api/v1/artifacts/{path.format(spelled)}", follow_redirects=False)
            assert reply.status_code in (307, 400, 404, 405)
            assert SECRET not in reply.content
    reply = api.post(f"/api/v1/runs/{run_id}/artifacts", params={"name": text}, content=b"a")
    assert reply.status_code in (415, 422)
    assert {path: path.read_bytes() for path in settings.home.rglob("*secret*")} == before


@given(st.text(max_size=200))
def test_a_file_s_name_is_harmless(text: str) -> None:
    name = file_name(text)
    assert 0 < len(name) <= 128
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
    assert Path("/folder", name).resolve().parent == Path("/folder")


@given(st.text("bytes=-0123456789, x", max_size=30), st.integers(0, 50))
def test_a_range_lies_within_what_there_is(asked: str, size: int) -> None:
    with suppress(RangeError):
        found = parse_range(asked, size)
        assert found is None or 0 <= found[0] < found[1] <= size


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("bytes=0-", (0, 10)),
        ("bytes=3-5", (3, 6)),
        ("bytes=3-99", (3, 10)),
        ("bytes=-4", (6, 10)),
        ("bytes=-99", (0, 10)),
        ("BYTES=9-", (9, 10)),
        ("", None),
        ("bytes=-", None),
        ("bytes=5-3", None),
        ("bytes=0-1,3-4", None),
        ("lines=0-1", None),
        ("bytes=0x1-", None),
    ],
)
def test_ranges(asked: str, found: tuple[int, int] | None) -> None:
    assert parse_range(asked, 10) == found
