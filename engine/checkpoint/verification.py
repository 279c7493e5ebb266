"""Which checkpoints a folder holds, and whether they are whole: no tensors are read, and no torch is needed.

``manifest.json`` of a checkpoint has the SHA-256 of each of its files.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from engine.errors import CheckpointError

SCHEMA = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """``files`` maps each file's path below the folder to its SHA-256."""

    schema: int
    step: int
    files: dict[str, str]


_MANIFEST = TypeAdapter(Manifest)


@dataclass(frozen=True)
class VerifiedCheckpoint:
    """A checkpoint of the state after ``step``. ``skipped`` says, a line each, why newer ones were not taken."""

    path: Path
    step: int
    skipped: tuple[str, ...] = ()


def newest(folder: Path, contents: bool = True) -> VerifiedCheckpoint | None:
    """The newest checkpoint that verifies; None if there is none at all; CheckpointError if all are damaged.

    Without ``contents`` that all its files are there is enough, and none is read: for those who cannot wait for many gigabytes.
    """
    skipped: list[str] = []
    for path in reversed(listed(folder)):
        try:
            return VerifiedCheckpoint(path, _verified_step(path, contents), tuple(skipped))
        except CheckpointError as error:
            skipped.append(str(error))
    if skipped:
        raise CheckpointError("no checkpoint is usable; restore one or start a new run:\n" + "\n".join(skipped))
    return None


def listed(folder: Path) -> list[Path]:
    """The checkpoints of ``folder``, oldest first, whole or not."""
    found = (path for path in folder.glob("step_*") if re.fullmatch(r"step_\d{6,}", path.name))
    return sorted(found, key=step_of)


def step_of(path: Path) -> int:
    """By the name of a checkpoint."""
    return int(path.name.removeprefix("step_"))


def _verified_step(path: Path, contents: bool) -> int:
    """The step of the checkpoint at ``path``; CheckpointError says what is wrong with it."""
    try:
        manifest = _MANIFEST.validate_json((path / MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path.name}: {MANIFEST} is not readable: {error}") from None
    if manifest.schema != SCHEMA:
        raise CheckpointError(f"{path.name}: has schema {manifest.schema}, this version reads {SCHEMA}")
    if path.name != f"step_{manifest.step:06d}":
        raise CheckpointError(f"{path.name}: {MANIFEST} is of step {manifest.step}")
    for name, expected in manifest.files.items():
        if not (path / name).is_file():
            raise CheckpointError(f"{path.name}: {name} is missing")
        if contents and not intact(path / name, expected):
            raise CheckpointError(f"{path.name}: {name} is damaged (its SHA-256 differs, or it cannot be read)")
    return manifest.step


def intact(path: Path, sha256: str) -> bool:
    """Whether the file can be read, also from a disk that fails, and is what it was."""
    try:
        return sha256_of(path) == sha256
    except OSError:
        return False


def sha256_of(path: Path) -> str:
    """Of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
