"""A home is its owner's alone, also one that an earlier version has left open to everybody on the machine."""

import logging
import os
import stat
from pathlib import Path

from sqlalchemy import make_url

from backend.settings import Settings

OTHERS = stat.S_IRWXG | stat.S_IRWXO
BESIDE = ("", "-wal", "-shm")
"""What SQLite writes to beside its database ends like this."""

logger = logging.getLogger(__name__)


def tighten_home(settings: Settings) -> None:
    """Closes the home, its secrets and a SQLite database to everybody but their owner, and says which it has closed. What belongs to
    another user stays as it is, and so does a folder that is there for everybody, such as /tmp."""
    loose = [path for path in _private(settings) if _closes(path)]
    if loose:
        logger.warning("closed to everybody but their owner, as others could read them: %s", ", ".join(map(str, loose)))


def _private(settings: Settings) -> list[Path]:
    """The home last: what fails before leaves it to be tried again."""
    url = make_url(settings.database)
    database = [Path(f"{url.database}{end}") for end in BESIDE] if url.get_backend_name() == "sqlite" else []
    return [*database, settings.secret_file, settings.token_file, settings.server_file, settings.home]


def _closes(path: Path) -> bool:
    """Whether there was something to close. SQLite may take its files away at any moment."""
    try:
        found = path.stat()
        loose = found.st_uid == os.geteuid() and bool(found.st_mode & OTHERS) and not found.st_mode & stat.S_ISVTX
        if loose:
            path.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return loose
