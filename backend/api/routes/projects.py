"""Projects and their members."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from backend.api.dependencies import Cursor, DatabaseDep, IdentityDep, Limit, ReadSession, UnrestrictedIdentity
from backend.api.error_responses import documented
from backend.api.location import point_to
from backend.models import Project as Row
from backend.services.projects import management, membership_check
from longtail.schemas.identity import USER_NAME
from longtail.schemas.projects import Member, MemberPage, MemberRequest, Project, ProjectChange, ProjectPage, ProjectRequest

router = APIRouter(prefix="/projects", tags=["projects"])

UserNamed = Annotated[str, Path(max_length=64, pattern=USER_NAME)]


@router.get("")
def list_projects(
    identity: IdentityDep,
    session: ReadSession,
    archived: Annotated[bool, Query(description="With archived ones")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ProjectPage:
    """Those that one may see, newest first."""
    found, next_cursor = management.projects(session, identity, archived, limit, cursor)
    roles = {project.id: membership_check.role_in(session, identity, project.id) for project in found}
    return ProjectPage.from_rows(([_shown(project, roles[project.id]) for project in found], next_cursor))


@router.post("", status_code=201, responses=documented(409))
def create_project(body: ProjectRequest, response: Response, identity: UnrestrictedIdentity, database: DatabaseDep) -> Project:
    """Who makes it administers it, and is its first member."""
    with database.write() as session:
        project = management.create(session, identity, body.name, body.description)
        point_to(response, "projects", project.id)
        return _shown(project, "admin")


@router.get("/{project_id}", responses=documented(404))
def get_project(project_id: str, identity: IdentityDep, session: ReadSession) -> Project:
    project = membership_check.find_project(session, identity, project_id)
    return _shown(project, membership_check.role_in(session, identity, project_id))


@router.patch("/{project_id}", responses=documented(404, 409))
def change_project(project_id: str, body: ProjectChange, identity: IdentityDep, database: DatabaseDep) -> Project:
    """Renames, describes or archives it, and takes it back out of the archive. By its admins."""
    with database.write() as session:
        project = membership_check.find_project(session, identity, project_id, "admin")
        management.change(session, project, body)
        return _shown(project, "admin")


@router.get("/{project_id}/members", responses=documented(404))
def list_members(project_id: str, identity: IdentityDep, session: ReadSession, limit: Limit = 50, cursor: Cursor = None) -> MemberPage:
    """By name. Global admins are in every project without being members."""
    project = membership_check.find_project(session, identity, project_id)
    return MemberPage.from_rows(management.members(session, project, limit, cursor))


@router.put("/{project_id}/members/{user_name}", responses=documented(404))
def set_member(project_id: str, user_name: UserNamed, body: MemberRequest, identity: IdentityDep, database: DatabaseDep) -> Member:
    """Lets a user in, or changes what a member may do. By the project's admins."""
    with database.write() as session:
        management.admit(session, membership_check.find_project(session, identity, project_id, "admin"), user_name, body.role)
    return Member(user=user_name, role=body.role)


@router.delete("/{project_id}/members/{user_name}", status_code=204, responses=documented(404))
def remove_member(project_id: str, user_name: UserNamed, identity: IdentityDep, database: DatabaseDep) -> None:
    """By the project's admins."""
    with database.write() as session:
        management.expel(session, membership_check.find_project(session, identity, project_id, "admin"), user_name)


def _shown(project: Row, role: str | None) -> Project:
    facts = {name: getattr(project, name) for name in ("id", "name", "description", "created_at", "archived_at")}
    return Project.model_validate(facts | {"role": role})
