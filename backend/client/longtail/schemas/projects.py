"""Projects: what groups runs, and whose they are."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool

from longtail.schemas.base import Body, Page, Schema, visible
from longtail.schemas.identity import Role

DEFAULT_PROJECT = "0000000000000001"
"""The project that is there from the first start. Every new user is an editor of it, as far as their own role lets them."""

ProjectName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$"), AfterValidator(visible)]
Description = Annotated[str, Field(max_length=2000, pattern=r"^[^\x00]*$")]


class ProjectRequest(Body):
    name: ProjectName
    description: Description = ""


class ProjectChange(Body):
    """What is left out stays. An archived project takes no more runs, and those it has leave the lists that do not name it."""

    name: ProjectName | None = None
    description: Description | None = None
    archived: StrictBool | None = None


class Project(Schema):
    """``role`` is what the caller may do in it."""

    id: str
    name: str
    description: str
    created_at: datetime
    archived_at: datetime | None
    role: Role


class ProjectPage(Page[Project]):
    pass


class MemberRequest(Body):
    role: Role


class Member(Schema):
    """What a user may do in a project: see (viewer), work with its runs (editor), also choose its members (admin). A user whose own
    role is viewer only sees, whatever stands here; global admins need no membership."""

    user: str
    role: Role


class MemberPage(Page[Member]):
    pass
