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
    another user stays as it is."""
    loose = [path for path in _private(settings) if path.exists() and _is_loose(path.stat())]
    for path in loose:
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~OTHERS)
    if loose:
        logger.warning("closed to everybody but their owner, as others could read them: %s", ", ".join(map(str, loose)))


def _private(settings: Settings) -> list[Path]:
    """The home last: what fails before leaves it to be tried again."""
    url = make_url(settings.database)
    database = [Path(f"{url.database}{end}") for end in BESIDE] if url.get_backend_name() == "sqlite" else []
    return [*database, settings.secret_file, settings.token_file, settings.server_file, settings.home]


def _is_loose(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and bool(found.st_mode & OTHERS)
