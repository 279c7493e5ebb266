"""Makes and changes projects, and lets members in."""

import time
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from backend.database import upsert
from backend.errors import ConflictError, ForbiddenError, NotFoundError
from backend.models import Membership, Project, User
from backend.services.identity.tokens import Identity
from backend.services.pagination import page
from backend.services.projects.membership_check import find_project, role_in, visible_projects
from longtail.schemas.identity import Role, allows
from longtail.schemas.projects import DEFAULT_PROJECT, Member, ProjectChange


def projects(session: Session, identity: Identity, archived: bool, limit: int, cursor: str | None) -> tuple[Sequence[Project], str | None]:
    """Those in sight, newest first."""
    return page(session, visible_projects(identity, archived), [Project.created_at, Project.id], limit, cursor)


def project_for_new_run(session: Session, identity: Identity, project_id: str | None) -> Project:
    """The project that a new run of the caller goes to: the one named, else the token's, else the default one."""
    return find_project(session, identity, project_id or identity.project_id or DEFAULT_PROJECT, "editor")


def check_may_submit(session: Session, identity: Identity) -> None:
    """ForbiddenError unless there is a project in which the caller may start a run."""
    projects = session.scalars(visible_projects(identity, archived=False).with_only_columns(Project.id))
    if not any((role := role_in(session, identity, project_id)) and allows(role, "editor") for project_id in projects):
        raise ForbiddenError(f"{identity.user_name} is in no project an editor: ask the admin of one")


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


def members(session: Session, project: Project, limit: int, cursor: str | None) -> tuple[list[Member], str | None]:
    """By name."""
    ours = Membership.project_id == project.id
    query = select(User).join(Membership, Membership.user_id == User.id).where(ours)
    users, next_cursor = page(session, query, [User.name], limit, cursor, rises=True)
    found = select(Membership).where(ours, Membership.user_id.in_([user.id for user in users]))
    roles = {membership.user_id: membership.role for membership in session.scalars(found)}
    return [Member.model_validate({"user": user.name, "role": roles[user.id]}) for user in users], next_cursor


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
