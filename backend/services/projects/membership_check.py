"""Whether a caller is a member of a project, and what they may do there. The projects of what a path names are checked before every
route, so that no route can forget to. What a user has no part in is not there for them: 404, not 403."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from backend.errors import ForbiddenError, NotFoundError
from backend.models import Artifact, Membership, Project, Run, is_id
from backend.services.identity.tokens import Identity
from longtail.schemas.identity import Role, allows, lesser

PROJECT_OF: Mapping[str, Callable[[str], Select[Any]]] = {
    "run_id": lambda run_id: select(Run.project_id).where(Run.id == run_id),
    "artifact_id": lambda artifact_id: select(Run.project_id).join(Artifact, Artifact.run_id == Run.id).where(Artifact.id == artifact_id),
    "project_id": lambda project_id: select(Project.id).where(Project.id == project_id),
}
"""By the name of the path's parameter."""


def sees_all_projects(identity: Identity) -> bool:
    """To whom ``check_membership`` never says no."""
    return identity.user_role == "admin" and identity.project_id is None


def check_membership(session: Session, identity: Identity, named: Mapping[str, Any], needed: Role) -> None:
    """NotFoundError if something that ``named`` names (by a key of PROJECT_OF) is out of the caller's sight, or not there: these must not
    look different, whatever else is wrong with the request. ForbiddenError if they may do less than ``needed`` there."""
    if sees_all_projects(identity):
        return
    for kind, value in named.items():
        project_id = session.scalar(PROJECT_OF[kind](value)) if is_id(value) else None
        role = role_in(session, identity, project_id) if project_id else None
        if role is None:
            raise NotFoundError(f"there is no {kind.removesuffix('_id')} {value}")
        if not allows(role, needed):
            raise ForbiddenError(f"this needs the role {needed} in its project; {identity.user_name} has that of {role}")


def visible_projects(identity: Identity, archived: bool = True) -> Select[Any]:
    """The projects that somebody may see."""
    query = select(Project)
    if identity.project_id is not None:
        query = query.where(Project.id == identity.project_id)
    if identity.user_role != "admin":
        query = query.where(Project.id.in_(select(Membership.project_id).where(Membership.user_id == identity.user_id)))
    return query if archived else query.where(Project.archived_at.is_(None))


def chosen_projects(session: Session, identity: Identity, project_id: str | None) -> Select[Any]:
    """The project of this id, NotFoundError if it is out of sight; or else all in sight that are not archived."""
    if project_id is None:
        return visible_projects(identity, archived=False)
    find_project(session, identity, project_id)
    return visible_projects(identity).where(Project.id == project_id)


def role_in(session: Session, identity: Identity, project_id: str) -> Role | None:
    """What somebody may do in a project; None: not even see it."""
    if identity.project_id not in (None, project_id):
        return None
    if identity.user_role == "admin":
        return capped(identity, "admin")
    membership = session.get(Membership, (identity.user_id, project_id))
    return capped(identity, membership.role) if membership else None


def capped(identity: Identity, held: str) -> Role:
    """What the caller's token leaves of the role ``held`` in a project. Only a whole token, of a user who may write, administers one."""
    most: Role = "viewer" if identity.role == "viewer" else "admin" if identity.is_unrestricted else "editor"
    return lesser(cast(Role, held), most)


def find_project(session: Session, identity: Identity, project_id: str, needed: Role = "viewer") -> Project:
    """NotFoundError if the caller may not see it, ForbiddenError if they may do less than ``needed``."""
    project = session.get(Project, project_id) if is_id(project_id) else None
    role = role_in(session, identity, project_id) if project else None
    if project is None or role is None:
        raise NotFoundError(f"there is no project {project_id}")
    if not allows(role, needed):
        raise ForbiddenError(f"this needs the role {needed} in project {project.name}; {identity.user_name} has that of {role}")
    return project
