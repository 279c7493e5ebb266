"""What users change of a run that is there: name, notes, tags, priority, project and owner."""

import re

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.errors import ForbiddenError, NotFoundError, StaleError
from backend.models import Run, User
from backend.services.identity.tokens import Identity
from backend.services.projects.membership_check import find_project
from backend.services.runs import search_index
from backend.services.runs.lookup import find
from backend.services.runs.state_digest import state_digest
from backend.services.runs.submission import refuse_archived
from longtail.schemas.runs import Run as RunReply
from longtail.schemas.runs import RunChange


def change(session: Session, run_id: str, wanted: RunChange, seen: str | None, identity: Identity) -> Run:
    """Sets what ``wanted`` names. ``seen`` is an If-Match header: StaleError unless it names the run's present revision. NotFoundError or
    ForbiddenError for a project that ``identity`` may not work in, and for an owner that it may not name."""
    run = find(session, run_id, lock=True)
    _check_place(session, wanted, run, identity)
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


def _check_place(session: Session, wanted: RunChange, run: Run, identity: Identity) -> None:
    if wanted.project_id is not None and wanted.project_id != run.project_id:
        refuse_archived(find_project(session, identity, wanted.project_id, "editor"))
    if wanted.owner is not None and wanted.owner != run.owner:
        if not (identity.user_role == "admin" and identity.is_unrestricted):
            raise ForbiddenError("only admins give a run to another owner")
        if session.scalar(select(User.id).where(User.name == wanted.owner)) is None:
            raise NotFoundError(f"there is no user {wanted.owner}")


def entity_tag(run: RunReply) -> str:
    """The revision, for If-Match, and what else may change of the run, for If-None-Match."""
    return f'"{run.revision}.{state_digest(run)}"'


def _names(seen: str, run: Run) -> bool:
    """Whether it names the run's revision, alone or as the beginning of an entity tag: that the run went on meanwhile does no harm."""
    tags = {re.sub(r'\.[0-9a-f]{16}"$', '"', tag.strip()) for tag in seen.split(",")}
    return "*" in tags or f'"{run.revision}"' in tags
