"""What users change of a run that is there: name, notes, tags and priority."""

import re

from sqlalchemy.orm import Session

from backend.errors import StaleError
from backend.models import Run
from backend.services.runs import search_index
from backend.services.runs.lookup import find
from backend.services.runs.state_digest import state_digest
from longtail.schemas.runs import Run as RunReply
from longtail.schemas.runs import RunChange


def change(session: Session, run_id: str, wanted: RunChange, seen: str | None) -> Run:
    """Sets what ``wanted`` names. ``seen`` is an If-Match header: StaleError unless it names the run's present revision."""
    run = find(session, run_id, lock=True)
    if seen is not None and not _names(seen, run):
        raise StaleError(f"run {run_id} has been changed meanwhile: it is at revision {run.revision} now")
    changes = {name: value for name, value in wanted.model_dump(exclude_none=True).items() if getattr(run, name) != value}
    for name, value in changes.items():
        setattr(run, name, value)
    if changes:
        run.revision += 1
        session.flush()
        search_index.reindex_labels(session, run)
    return run


def entity_tag(run: RunReply) -> str:
    """The revision, for If-Match, and what else may change of the run, for If-None-Match."""
    return f'"{run.revision}.{state_digest(run)}"'


def _names(seen: str, run: Run) -> bool:
    """Whether it names the run's revision, alone or as the beginning of an entity tag: that the run went on meanwhile does no harm."""
    tags = {re.sub(r'\.[0-9a-f]{16}"$', '"', tag.strip()) for tag in seen.split(",")}
    return "*" in tags or f'"{run.revision}"' in tags
