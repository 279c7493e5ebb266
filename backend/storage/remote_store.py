"""The artifact store on any file system that fsspec knows, such as s3://bucket/prefix (needs s3fs) or memory://."""

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs

from backend.storage.store import Stored, checked, is_sha256
from longtail.file_chunks import CHUNK, chunks

REQUEST = 4 * 2**20
"""Bytes asked for at a time: enough for the latency of a store not to matter, and little enough for memory."""


class RemoteStore:
    def __init__(self, url: str, incoming: Path) -> None:
        self._url, self.incoming = url, incoming
        self._files, self._root = self._open()

    def commit(self, file: Path, sha256: str) -> None:
        """In a transaction: what breaks off, or is killed, leaves no object (on S3 an unfinished multipart upload, which a rule of
        the bucket should expire)."""
        path = self._path(sha256)
        files, _ = self._open()  # of its own, as a transaction belongs to a file system object, not to a thread
        files.makedirs(path.rpartition("/")[0], exist_ok=True)
        with files.transaction, files.open(path, "wb") as target:
            for chunk in chunks(file):
                target.write(chunk)

    def find(self, sha256: str) -> Stored | None:
        if is_sha256(sha256):
            with suppress(FileNotFoundError):
                return _stored(sha256, self._files.info(self._path(sha256)))
        return None

    def read(self, sha256: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        path = self._path(sha256)
        last = self._files.info(path)["size"] if end is None else end
        for at in range(start, last, REQUEST):
            data = self._files.cat_file(path, start=at, end=min(at + REQUEST, last))
            yield from (data[here : here + CHUNK] for here in range(0, len(data), CHUNK))

    def remove(self, sha256: str) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(self._path(sha256))

    def objects(self) -> Iterator[Stored]:
        for path, facts in self._files.find(self._root, detail=True).items():
            name = path.rpartition("/")[2]
            if is_sha256(name):
                yield _stored(name, facts)

    def _path(self, sha256: str) -> str:
        return f"{self._root.rstrip('/')}/{checked(sha256)[:2]}/{sha256}"

    def _open(self) -> tuple[Any, str]:
        files, root = url_to_fs(self._url, skip_instance_cache=True, use_listings_cache=False)
        return files, str(root)


def _stored(sha256: str, facts: dict[str, Any]) -> Stored:
    """File systems do not agree on how to say when; where one does not say, it counts as now, and the object is no old one."""
    names = ("LastModified", "last_modified", "mtime", "updated", "created")
    moment = next((facts[name] for name in names if facts.get(name)), time.time())
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return Stored(sha256, int(facts["size"]), moment.timestamp() if isinstance(moment, datetime) else float(moment))
