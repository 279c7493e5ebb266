"""What an engine prints: not more than a disk can hold, of which the end counts."""

import os
from pathlib import Path
from typing import IO

LOG_BYTES = 64 * 2**20
TAIL_BYTES = 64 * 2**10


def opened(log: Path) -> IO[bytes]:
    """Empty, to be appended to, so that it can be cut while processes write to it."""
    log.unlink(missing_ok=True)
    return log.open("ab")


def cut(log: Path, most: int = LOG_BYTES) -> None:
    """Leaves the end of a log of more than ``most`` bytes."""
    if not log.exists() or log.stat().st_size <= most:
        return
    kept = _end(log)
    os.truncate(log, 0)
    with log.open("ab") as file:
        file.write(b"[longtail: what was printed before is cut off]\n" + kept)


def last_lines(log: Path, most: int) -> list[str]:
    """Those that are not blank, in the last TAIL_BYTES of a log; none if it is not there."""
    lines = _end(log).decode("utf-8", errors="replace").splitlines() if log.exists() else []
    return [line for line in lines if line.strip()][-most:]


def _end(log: Path) -> bytes:
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        return file.read(TAIL_BYTES)
