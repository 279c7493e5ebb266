"""The projects of what a path names. Checked before every route, so that no route can forget to."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from backend.errors import ForbiddenError, NotFoundError
from backend.models import Artifact, Project, Run, is_id
from backend.schemas.accounts import Role, allows
from backend.services.projects import role_in
from backend.services.tokens import Identity

PROJECT_OF: Mapping[str, Callable[[str], Select[Any]]] = MappingProxyType(
    {
        "run_id": lambda run_id: select(Run.project_id).where(Run.id == run_id),
        "artifact_id": lambda artifact_id: (
            select(Run.project_id).join(Artifact, Artifact.run_id == Run.id).where(Artifact.id == artifact_id)
        ),
        "project_id": lambda project_id: select(Project.id).where(Project.id == project_id),
    }
)
"""By the name of the path's parameter."""


def are_all_open(identity: Identity) -> bool:
    """To whom ``check`` never says no."""
    return identity.user_role == "admin" and identity.project_id is None


def check(session: Session, identity: Identity, named: Mapping[str, Any], needed: Role) -> None:
    """NotFoundError if something that ``named`` names (by a key of PROJECT_OF) is out of the caller's sight, ForbiddenError if they may do
    less than ``needed`` there. What does not exist is left to the route."""
    if are_all_open(identity):
        return
    for kind, value in named.items():
        project_id = session.scalar(PROJECT_OF[kind](value)) if is_id(value) else None
        role = role_in(session, identity, project_id) if project_id else needed
        if role is None:
            raise NotFoundError(f"there is no {kind.removesuffix('_id')} {value}")
        if not allows(role, needed):
            raise ForbiddenError(f"this needs the role {needed} in its project; {identity.user_name} has that of {role}")
