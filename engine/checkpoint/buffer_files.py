"""A data buffer's entries on disk: files that are written once, each by a background thread while the run goes on.

A checkpoint names the files that hold its entries; so to save a large buffer takes no longer than to write what came last. Files
are written aside, flushed and renamed, and they stay until two checkpoints in a row have had no use for them; those that no checkpoint
names only as long as the buffer has something of them. There is one write at a time: where the disk is slower than the run, what the
buffer drops meanwhile is neither written nor kept for that.
"""

import json
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from engine.checkpoint.storage import flush, unwritten
from engine.checkpoint.verification import intact, sha256_of
from engine.drafter.data_buffer import DataBuffer, Entry, Window


@dataclass(frozen=True)
class BufferFile:
    """A file at ``path``, relative to the run's folder for checkpoints; ``last`` is the id of its last entry."""

    path: str
    last: int
    sha256: str


class BufferFiles:
    """Keeps the entries of ``buffer`` below ``folder`` / ``name``. Errors of the background thread surface in what ``index`` gives."""

    def __init__(self, folder: Path, name: str, buffer: DataBuffer) -> None:
        self._folder, self._name, self._buffer = folder, name, buffer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._writes: list[Future[BufferFile]] = []
        self._latest: Future[BufferFile] | None = None
        self._segments: list[BufferFile] = []
        self._named: set[str] = set()
        self._next = 0

    def write_new(self, least: int = 1) -> None:
        """Has the entries that are not written yet written, if they take at least so many bytes, and returns at once. While others are
        being written it leaves them to the next call, and to ``index`` once a write has failed, which holds its entries until then."""
        if self._latest is None or (self._latest.done() and self._latest.exception() is None):
            self._write_rest(least)

    def index(self) -> "Future[dict[str, Any]]":
        """What ``load`` takes (plain values), of the buffer as it is now, once that is on disk; CheckpointError if it cannot be."""
        self._write_rest()
        writes, self._writes = self._writes, []
        return self._thread.submit(self._index, writes, self._buffer.counters())

    def load(self, index: dict[str, Any]) -> None:
        """Fills the buffer as it was. Entries whose file is missing or damaged are left out: training does without them."""
        segments = [BufferFile(**segment) for segment in index["segments"]]
        whole = [segment for segment in segments if intact(self._folder / segment.path, segment.sha256)]
        self._buffer.restore(index, (entry for segment in whole for entry in read_entries(self._folder / segment.path)))
        ours = "first_group" in index and all(Path(segment.path).parent.name == self._name for segment in whole)
        self._segments = whole if ours else []
        self._next = index["next"] if ours else 0  # those of another worker, or split otherwise, are written again
        self._named = {Path(segment.path).name for segment in self._segments}

    def _write_rest(self, least: int = 1) -> None:
        entries = self._buffer.since(self._next)
        if sum(entry.bytes for entry in entries) >= least:
            self._next = entries[-1].id + 1
            outdated = [write for write in self._writes if self._is_outdated(write)]
            self._writes = [write for write in self._writes if write not in outdated]
            self._latest = self._thread.submit(self._write, entries, [write.result() for write in outdated])
            self._writes.append(self._latest)

    def _is_outdated(self, write: Future[BufferFile]) -> bool:
        return write.done() and write.exception() is None and write.result().last < self._buffer.oldest

    def _index(self, written: Sequence[Future[BufferFile]], counters: dict[str, int]) -> dict[str, Any]:
        self._segments += [write.result() for write in written]
        self._segments = [segment for segment in self._segments if segment.last >= counters["oldest"]]
        self._sweep()
        return counters | {"segments": [asdict(segment) for segment in self._segments]}

    def _write(self, entries: Sequence[Entry], outdated: Sequence[BufferFile]) -> BufferFile:
        """After that the ``outdated`` ones are deleted."""
        path = self._folder / self._name / f"{entries[0].id:09d}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".partial")
        try:
            write_entries(aside, entries)
            flush(aside)
        except (OSError, SafetensorError) as error:
            raise unwritten(path, error) from None
        digest = sha256_of(aside)
        aside.replace(path)
        flush(path.parent)
        for each in outdated:
            (self._folder / each.path).unlink(missing_ok=True)
        return BufferFile(str(path.relative_to(self._folder)), entries[-1].id, digest)

    def _sweep(self) -> None:
        """Deletes what neither this checkpoint nor the one before names, nothing of which is being written."""
        names = {Path(segment.path).name for segment in self._segments}
        for path in (self._folder / self._name).glob("*"):
            if path.name not in names | self._named:
                path.unlink()
        self._named = names


def write_entries(path: Path, entries: Sequence[Entry]) -> None:
    """Writes at least one entry to a safetensors file."""
    index = [[entry.id, entry.group, entry.step, entry.prompt, len(entry.tokens), entry.window] for entry in entries]
    tensors = {"tokens": torch.cat([entry.tokens for entry in entries]), "features": torch.cat([entry.features for entry in entries])}
    save_file(tensors, path, metadata={"entries": json.dumps(index)})


def read_entries(path: Path) -> list[Entry]:
    """What ``write_entries`` wrote; entries share no memory, so that each can be dropped."""
    with safe_open(path, framework="pt") as file:
        index = json.loads(file.metadata()["entries"])
        lengths = [length for _, _, _, _, length, *_ in index]
        tokens = file.get_tensor("tokens").split(lengths)
        features = file.get_tensor("features").split([length - 1 for length in lengths])
    return [
        Entry(number, group, step, ids.clone(), prompt, hidden.clone(), Window(*window[0]) if window and window[0] else None)
        for (number, group, step, prompt, _, *window), ids, hidden in zip(index, tokens, features, strict=True)  # earlier files have none
    ]
