"""A lock on a file, for one process at a time or for several that share it. It ends with them, however they end, and holds over NFS."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(path: Path, shared: bool = False) -> Iterator[bool]:
    """Whether the lock is this block's; False, at once, while somebody else has it and does not share it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
