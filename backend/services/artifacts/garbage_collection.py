"""Collects orphans, both ways: content that no artifact refers to is freed, and an artifact whose content is gone says so."""

import logging
import math
import time
from contextlib import suppress
from dataclasses import dataclass, field

from sqlalchemy import exists, select, update

from backend.database import Database, affected
from backend.models import Artifact
from backend.services.artifacts.registry import lock_content
from backend.settings import Settings
from backend.storage.staging import SUFFIX
from backend.storage.store import Store

FEW = 10
"""Up to so many orphans need no explanation; more than half of all is taken for a sign that this is another store's database."""

logger = logging.getLogger(__name__)


@dataclass
class Findings:
    """``orphans`` and ``freed`` are checksums, ``missing`` and ``back`` ids of artifacts. ``doubtful``: too many for none to be asked."""

    orphans: list[str] = field(default_factory=list)
    freed: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)
    doubtful: bool = False


def find_garbage(database: Database, settings: Settings, store: Store) -> Findings:
    """What ``collect_garbage`` would do. Rows are read before the store is listed: their content was there before them."""
    with database.read() as session:
        rows = session.execute(select(Artifact.id, Artifact.sha256, Artifact.bytes, Artifact.stored_at, Artifact.missing_since)).all()
    objects = {stored.sha256: stored for stored in store.objects()}
    named = {row.sha256 for row in rows}
    before = time.time() - settings.orphan_hours * 3600
    found = Findings([sha256 for sha256, stored in objects.items() if sha256 not in named and stored.modified < before])
    found.doubtful = len(found.orphans) > max(FEW, len(objects) / 2)
    for row in rows:
        if row.stored_at is not None:
            whole = row.sha256 in objects and objects[row.sha256].bytes == row.bytes
            if whole == (row.missing_since is not None):
                (found.back if whole else found.missing).append(row.id)
    return found


def collect_garbage(database: Database, settings: Settings, store: Store, sure: bool = False) -> Findings:
    """Frees orphans older than ``orphan_hours`` and files that a killed process left on their way; without ``sure`` not too many."""
    found = find_garbage(database, settings, store)
    before = time.time() - settings.orphan_hours * 3600
    for path in store.incoming.glob(f"*{SUFFIX}"):
        with suppress(FileNotFoundError):  # it has just arrived
            if path.stat().st_mtime < before:
                path.unlink()
    if found.doubtful and not sure:
        logger.error("%d files of the artifact store belong to no run; is it this database's? longtail verify --repair", len(found.orphans))
    else:
        found.freed = [sha256 for sha256 in found.orphans if free_content(database, store, sha256, before)]
    _record(database, found)
    return found


def free_content(database: Database, store: Store, sha256: str, before: float = math.inf) -> bool:
    """Frees the content if no artifact refers to it, and it is older than ``before``. Looks again while nobody can make it somebody's."""
    with database.write() as session:
        lock_content(session)
        stored = store.find(sha256)
        if stored is None or stored.modified >= before or session.scalar(select(exists().where(Artifact.sha256 == sha256))):
            return False
        store.remove(sha256)
        return True


def _record(database: Database, found: Findings) -> None:
    for ids, since in ((found.missing, time.time()), (found.back, None)):
        if ids:
            logger.warning("artifacts %s: %s", "back" if since is None else "whose content is gone", ", ".join(ids))
            with database.write() as session:
                affected(session, update(Artifact).where(Artifact.id.in_(ids)).values(missing_since=since))
