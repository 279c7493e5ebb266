"""Folders of one process: temporary ones that carry its number in their name, so that those of killed processes can be told, and
locked ones."""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
LONGEST = 13
"""Bytes of a path below which there is room for that of a socket, which ends at 107: Ray's takes 64, and our folder's name up to 30."""
SHORT = "/tmp"


def new_folder(prefix: str) -> Path:
    """A folder of this process's own; its path is short, as those of sockets must be."""
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=_short()))


def sweep(prefix: str) -> None:
    """Removes the folders of processes that were killed."""
    for folder in _short().glob(f"{prefix}*"):
        owner = folder.name.removeprefix(prefix).split("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _short() -> Path:
    """Where temporary folders are: not in TMPDIR if that is as long as clusters give it to jobs."""
    chosen = tempfile.gettempdir()
    return Path(chosen if len(os.fsencode(chosen)) <= LONGEST else SHORT)


@contextmanager
def locked(folder: Path, taken: Exception) -> Iterator[Path]:
    """``folder``, made if it is not there, for this process alone until the end of the block or of the process. Raises ``taken`` if another
    one has it, and OSError if it cannot be made."""
    folder.mkdir(parents=True, exist_ok=True)
    opened = os.open(folder, os.O_RDONLY)
    try:
        if not lock(opened):
            raise taken
        yield folder
    finally:
        os.close(opened)


def lock(opened: int) -> bool:
    """For this process, until it closes the descriptor or ends; False if another one has it. Where a file system knows no locks,
    everybody gets it."""
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return True
        if error.errno == errno.EWOULDBLOCK:
            return False
        raise
    return True
