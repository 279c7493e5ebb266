"""Lists of artifacts: of one run, or over all runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, or_, select
from sqlalchemy.orm import Session, contains_eager

from backend.models import Artifact, Project, Run
from backend.services.pagination import page


@dataclass(frozen=True)
class ArtifactFilter:
    """Which artifacts. ``projects`` are those that the caller may see."""

    projects: Select[Any]
    types: Sequence[str] = ()
    run: str | None = None
    q: str | None = None


def page_of_artifacts(session: Session, wanted: ArtifactFilter, limit: int, cursor: str | None) -> tuple[Sequence[Artifact], str | None]:
    """Newest first, without those of deleted runs."""
    projects = session.scalars(wanted.projects.with_only_columns(Project.id)).all()
    ours = (Run.deleted_at.is_(None), Run.project_id.in_(projects))
    run = contains_eager(Artifact.run).load_only(Run.name, Run.project_id, Run.summary)
    query = select(Artifact).join(Artifact.run).options(run).where(*ours, *_conditions(wanted))
    return page(session, query, [Artifact.created_at, Artifact.id], limit, cursor)


def _conditions(wanted: ArtifactFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.types:
        conditions.append(Artifact.type.in_(wanted.types))
    if wanted.run is not None:
        conditions.append(Artifact.run_id == wanted.run)
    if wanted.q:
        model = Artifact.details["base_model"].as_string()
        parts = [text.icontains(wanted.q, autoescape=True) for text in (Artifact.name, Run.name, model)]
        beginnings = [text.startswith(wanted.q, autoescape=True) for text in (Artifact.run_id, Artifact.sha256)]
        conditions.append(or_(*parts, *beginnings))
    return conditions


def artifacts_of_run(session: Session, run_id: str, limit: int, cursor: str | None) -> tuple[Sequence[Artifact], str | None]:
    """Oldest first."""
    query = select(Artifact).where(Artifact.run_id == run_id)
    return page(session, query, [Artifact.created_at, Artifact.id], limit, cursor, rises=True)
