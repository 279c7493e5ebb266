"""Content by its checksum: whole or not there, in a folder and on a file system of fsspec's."""

import hashlib
import os
import time
from pathlib import Path

import pytest

from backend.settings import Settings
from backend.storage.folder_store import FolderStore
from backend.storage.open_store import open_store
from backend.storage.remote_store import RemoteStore
from backend.storage.staging import Staged, staging
from backend.storage.store import Store
from longtail.file_chunks import CHUNK

CONTENT = os.urandom(20 * CHUNK + 100)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(params=["folder", "memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    url = {"folder": str(tmp_path / "store"), "memory": f"memory://{tmp_path}", "file": f"file://{tmp_path}/store"}[request.param]
    return open_store(Settings(home=tmp_path / "home", artifact_store=url))


def put(store: Store, content: bytes = CONTENT) -> Staged:
    with staging(store.incoming) as staged:
        staged.write(content)
        staged.seal()
        store.commit(staged.path, staged.sha256)
        return staged


def test_content_comes_back_whole_and_in_parts(store: Store) -> None:
    assert store.find(SHA256) is None
    staged = put(store)
    assert (staged.sha256, staged.bytes) == (SHA256, len(CONTENT))
    found = store.find(SHA256)
    assert found is not None
    assert (found.sha256, found.bytes) == (SHA256, len(CONTENT))
    assert abs(found.modified - time.time()) < 60
    assert b"".join(store.read(SHA256)) == CONTENT
    for start, end in ((0, 1), (CHUNK - 1, CHUNK + 1), (len(CONTENT) - 1, len(CONTENT)), (5, 5)):
        assert b"".join(store.read(SHA256, start, end)) == CONTENT[start:end]
    assert list(store.objects()) == [found]
    store.remove(SHA256)
    store.remove(SHA256)
    assert (store.find(SHA256), list(store.objects())) == (None, [])


def test_the_same_content_again_is_new_again(store: Store) -> None:
    """So the collector, which goes by age, spares what is just being taken in."""
    put(store)
    before = store.find(SHA256)
    time.sleep(0.02)
    put(store)
    after = store.find(SHA256)
    assert before is not None
    assert after is not None
    assert after.modified > before.modified
    assert len(list(store.objects())) == 1


def test_what_breaks_off_leaves_nothing(store: Store) -> None:
    def break_off() -> None:
        with staging(store.incoming) as staged:
            staged.write(b"half")
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        break_off()
    assert list(store.objects()) == []
    assert list(store.incoming.iterdir()) == []


@pytest.mark.parametrize("broken_after", [0, 1])
def test_a_transfer_that_fails_leaves_no_half_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken_after: int) -> None:
    def failing(_path: Path):  # type: ignore[no-untyped-def]
        yield from [b"some"] * broken_after
        raise OSError("the line is cut")

    store = RemoteStore(f"memory://{tmp_path}/broken", tmp_path / "incoming")
    monkeypatch.setattr("backend.storage.remote_store.chunks", failing)
    with pytest.raises(OSError, match="cut"):
        put(store)
    assert list(store.objects()) == []


@pytest.mark.parametrize("name", ["", "a", "../" + "a" * 61, "A" * 64, "g" * 64, "a" * 64 + "\n", "/etc/passwd", "a" * 63 + "\0"])
def test_only_a_checksum_is_a_name(store: Store, name: str) -> None:
    assert store.find(name) is None
    with pytest.raises(ValueError, match="not a SHA-256"):
        store.remove(name)
    with pytest.raises(ValueError, match="not a SHA-256"):
        list(store.read(name, 0, 1))


def test_a_link_in_the_folder_is_no_content(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    put(store)
    secret = tmp_path / "secret"
    secret.write_text("not for you")
    place = tmp_path / "store" / SHA256[:2] / SHA256
    place.unlink()
    place.symlink_to(secret)
    assert (store.find(SHA256), list(store.objects())) == (None, [])
    store.remove(SHA256)
    assert secret.exists()
