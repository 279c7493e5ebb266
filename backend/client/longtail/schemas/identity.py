"""What the REST API takes and gives about users, tokens and sessions."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, SecretStr

from longtail.schemas.base import Body, Page, Schema

Role = Literal["viewer", "editor", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "editor", "admin")

USER_NAME = r"^[a-z0-9][a-z0-9._-]*$"
UserName = Annotated[str, Field(min_length=1, max_length=64, pattern=USER_NAME)]
Label = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _hidden(value: Any) -> Any:
    """First of all, so that no error repeats the text."""
    return SecretStr(value) if isinstance(value, str) else value


Password = Annotated[SecretStr, Field(min_length=12, max_length=256), BeforeValidator(_hidden)]
Given = Annotated[SecretStr, Field(max_length=256), BeforeValidator(_hidden)]


def allows(role: str, needed: Role) -> bool:
    return ROLES.index(cast(Role, role)) >= ROLES.index(needed)


def lesser(one: Role, other: Role) -> Role:
    return min(one, other, key=ROLES.index)


class PasswordLogin(Body):
    user: Annotated[str, Field(max_length=64, pattern=r"^[^\x00]*$")]
    password: Given


class TokenLogin(Body):
    token: Given


class TicketLogin(Body):
    ticket: Given


Login = PasswordLogin | TokenLogin | TicketLogin


class NewSession(Schema):
    """``token`` is the session's secret, to be sent as a bearer token."""

    token: str
    expires_at: datetime


class NewTicket(Schema):
    """Logs in once (POST /api/v1/sessions) until it expires."""

    ticket: str
    expires_at: datetime


class Me(Schema):
    """Who asks. ``role`` is what the token at hand allows, ``user_role`` what the user may at most. A token with a ``project_id`` opens
    that project only.
    """

    user: str
    role: Role
    user_role: Role
    token_id: str
    has_password: bool
    project_id: str | None = None

    @property
    def may_write(self) -> bool:
        return allows(self.role, "editor")

    @property
    def may_administer(self) -> bool:
        return allows(self.role, "admin")


class PasswordChange(Body):
    """``current`` may be left out by who has no password yet."""

    current: Given = SecretStr("")
    new: Password


class TokenRequest(Body):
    """``scope`` is a role, at most one's own. ``days`` until it expires; null: never. With a ``project_id`` it opens that project only."""

    name: Label
    scope: Role = "editor"
    project_id: str | None = Field(None, max_length=16)
    days: Annotated[float, Field(gt=0, le=3650)] | None = 90


class Token(Schema):
    """``kind`` is "token" (for programs) or "session" (of a browser)."""

    id: str
    user_name: str
    kind: Literal["token", "session"]
    name: str
    scope: Role
    project_id: str | None = None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None

    @property
    def is_over(self) -> bool:
        return self.revoked_at is not None or (self.expires_at is not None and self.expires_at < datetime.now(UTC))


class NewToken(Token):
    """``token`` is shown this once."""

    token: str


class TokenPage(Page[Token]):
    pass


class UserRequest(Body):
    """Without a password the user comes in by tokens only, which an admin makes."""

    name: UserName
    role: Role = "editor"
    password: Password | None = None


class UserChange(Body):
    """What is left out stays."""

    role: Role | None = None
    disabled: bool | None = None
    password: Password | None = None


class User(Schema):
    id: str
    name: str
    role: Role
    disabled: bool
    has_password: bool
    created_at: datetime


class UserPage(Page[User]):
    pass


class AuditEntry(Schema):
    """One write. ``object`` names what it was done to, such as runs/0123456789abcdef."""

    id: int
    time: datetime
    user_name: str
    token_id: str | None
    action: str
    object: str
    address: str


class AuditPage(Page[AuditEntry]):
    pass
