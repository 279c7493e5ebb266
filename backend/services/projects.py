"""Projects and their members. What a user has no part in is not there for them: 404, not 403."""

import time
from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import Select, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from backend.database import upsert
from backend.errors import ConflictError, ForbiddenError, NotFoundError
from backend.models import Membership, Project, User, is_id
from backend.schemas.accounts import Role, allows, lesser
from backend.schemas.projects import DEFAULT_PROJECT, ProjectChange
from backend.services.paging import page
from backend.services.tokens import Identity


def in_sight(identity: Identity, archived: bool = True) -> Select[Any]:
    """The projects that somebody may see."""
    query = select(Project)
    if identity.project_id is not None:
        query = query.where(Project.id == identity.project_id)
    if identity.user_role != "admin":
        query = query.where(Project.id.in_(select(Membership.project_id).where(Membership.user_id == identity.user_id)))
    return query if archived else query.where(Project.archived_at.is_(None))


def chosen(session: Session, identity: Identity, project_id: str | None) -> Select[Any]:
    """The project of this id, NotFoundError if it is out of sight; or else all in sight that are not archived."""
    if project_id is None:
        return in_sight(identity, archived=False)
    find(session, identity, project_id)
    return in_sight(identity).where(Project.id == project_id)


def projects(session: Session, identity: Identity, archived: bool, limit: int, cursor: str | None) -> tuple[Sequence[Project], str | None]:
    """Those in sight, newest first."""
    return page(session, in_sight(identity, archived), [Project.created_at, Project.id], limit, cursor)


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
    most: Role = "viewer" if identity.role == "viewer" else "admin" if identity.is_whole else "editor"
    return lesser(cast(Role, held), most)


def find(session: Session, identity: Identity, project_id: str, needed: Role = "viewer") -> Project:
    """NotFoundError if the caller may not see it, ForbiddenError if they may do less than ``needed``."""
    project = session.get(Project, project_id) if is_id(project_id) else None
    role = role_in(session, identity, project_id) if project else None
    if project is None or role is None:
        raise NotFoundError(f"there is no project {project_id}")
    if not allows(role, needed):
        raise ForbiddenError(f"this needs the role {needed} in project {project.name}; {identity.user_name} has that of {role}")
    return project


def place_for(session: Session, identity: Identity, project_id: str | None) -> Project:
    """The project that a new run of the caller goes to: the one named, else the token's, else the default one."""
    return find(session, identity, project_id or identity.project_id or DEFAULT_PROJECT, "editor")


def create(session: Session, identity: Identity, name: str, description: str) -> Project:
    """Who makes a project administers it."""
    project = Project(name=name, description=description)
    _save(session, project)
    session.add(Membership(project_id=project.id, user_id=identity.user_id, role="admin"))
    return project


def change(session: Session, project: Project, wanted: ProjectChange) -> None:
    if wanted.archived and project.id == DEFAULT_PROJECT:
        raise ConflictError("the default project cannot be archived: runs that name none go there")
    project.name = wanted.name or project.name
    project.description = project.description if wanted.description is None else wanted.description
    if wanted.archived is not None and wanted.archived != (project.archived_at is not None):
        project.archived_at = time.time() if wanted.archived else None
    _save(session, project)


def members(session: Session, project: Project) -> Sequence[tuple[str, str]]:
    """(user name, role), by name."""
    query = select(User.name, Membership.role).join(Membership, Membership.user_id == User.id).where(Membership.project_id == project.id)
    return [(name, role) for name, role in session.execute(query.order_by(User.name))]


def admit(session: Session, project: Project, user_name: str, role: Role) -> None:
    """Makes the user a member, or changes what the member may do."""
    upsert(session, Membership, [{"user_id": _user(session, user_name).id, "project_id": project.id, "role": role}])


def expel(session: Session, project: Project, user_name: str) -> None:
    membership = session.get(Membership, (_user(session, user_name).id, project.id))
    if membership is None:
        raise NotFoundError(f"{user_name} is no member of project {project.name}")
    session.delete(membership)


def _user(session: Session, name: str) -> User:
    user = session.scalar(select(User).where(User.name == name))
    if user is None:
        raise NotFoundError(f"there is no user {name}")
    return user


def _save(session: Session, project: Project) -> None:
    name = project.name
    try:
        with session.begin_nested():
            session.add(project)
    except IntegrityError:
        raise ConflictError(f"there is a project {name} already") from None
