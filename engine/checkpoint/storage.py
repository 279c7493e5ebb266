"""Checkpoints on disk: a folder per step, complete and verified or not there at all.

``step_000010/`` is written beside its place, under a name of its own, flushed to disk and renamed. ``manifest.json`` has the SHA-256 of
every file.
The suffix of a part's name is its format: ``.json`` (plain values) or ``.pt`` (tensors in nested containers, read back with
``weights_only``). Any other part is a function that writes the file or folder itself.
"""

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from engine.checkpoint.verification import MANIFEST, SCHEMA, Manifest, VerifiedCheckpoint, listed, sha256_of, step_of
from engine.errors import CheckpointError

Part = Callable[[Path], None] | Any
Fence = Callable[[], None]
"""Raises once somebody else has taken the folder over."""


def unfenced() -> None:
    """Nobody else ever will."""


def save(folder: Path, step: int, parts: Mapping[str, Part], fence: Fence = unfenced) -> VerifiedCheckpoint:
    """Writes the checkpoint of ``step`` with its parts by file name, in place of an older one of that step, unless ``fence`` raises.

    If a part fails, or the machine does, ``folder`` is as before except for a hidden leftover that the next ``save`` removes.
    """
    final, aside = folder / f"step_{step:06d}", folder / f".step_{step:06d}.{secrets.token_hex(4)}"
    fence()
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    aside.mkdir()
    for name, part in parts.items():
        path = aside / name
        write(part, path)
    files = {path.relative_to(aside).as_posix(): sha256_of(path) for path in sorted(aside.rglob("*")) if path.is_file()}
    write(asdict(Manifest(SCHEMA, step, files)), aside / MANIFEST)
    for path in (*aside.rglob("*"), aside):
        flush(path)
    fence()
    if final.exists():
        final.rename(folder / f".{final.name}.replaced")
    aside.rename(final)
    flush(folder)
    _sweep(folder)
    return VerifiedCheckpoint(final, step)


def write(part: Part, path: Path) -> None:
    """Writes a part to ``path``, whose suffix is its format. CheckpointError if there is no room, of which torch says RuntimeError."""
    if callable(part):
        part(path)
        return
    try:
        if path.suffix == ".json":
            _write_json(path, part)
        else:
            torch.save(part, path)
    except (OSError, RuntimeError) as error:
        raise unwritten(path, error) from None


def unwritten(path: Path, error: BaseException) -> CheckpointError:
    """What users are told of an ``error`` in writing to ``path``."""
    reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
    reason = "not all of it went to the disk" if "inline_container" in reason else reason  # which is all that torch says
    return CheckpointError(f"{path} cannot be written: is the disk full ({reason})? Make room, then resume or start again")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """CheckpointError if what is done inside, which is to write to ``path``, cannot; a file that is gone was swept by a successor."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, SafetensorError) as error:
        raise unwritten(path, error) from None
    except Exception as error:
        if type(error) is not Exception:  # which is all that tokenizers raises
            raise
        raise unwritten(path, error) from None


def read(path: Path) -> Any:
    """The part that was written to ``path``, on the CPU."""
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    return torch.load(path, map_location="cpu", weights_only=True)


def prune(folder: Path, keep: int, step: int | None = None) -> None:
    """Removes all but the ``keep`` newest checkpoints up to that of ``step``, by default of all. Later ones are neither counted nor
    removed: a run that goes on from an older checkpoint, as they are damaged, must not lose its own to them."""
    for path in [path for path in listed(folder) if step is None or step_of(path) <= step][:-keep]:
        path.rename(folder / f".{path.name}.pruned")  # out of sight at once: deleting takes time
    _sweep(folder)


def _write_json(path: Path, state: Any) -> None:
    path.write_text(json.dumps(state, indent=1, allow_nan=False), encoding="utf-8")


def flush(path: Path) -> None:
    """Returns once the file or folder is on disk. CheckpointError if it cannot be: some file systems find out now that they are full."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise unwritten(path, error) from None
    finally:
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    """Deletes what is out of use, and what an interrupted ``save`` or ``prune`` left behind."""
    for path in folder.glob(".step_*"):
        shutil.rmtree(path)
