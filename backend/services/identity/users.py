"""Users. Whatever is changed, somebody who can administer can still come in."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import ColumnElement, and_, exists, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from backend.errors import ConflictError, ForbiddenError, NotFoundError
from backend.models import Membership, Token, User, is_id
from backend.services.identity.passwords import hash_password, verify
from backend.services.identity.tokens import revoke_for_new_password
from backend.services.pagination import page
from longtail.schemas.identity import Role
from longtail.schemas.projects import DEFAULT_PROJECT


def create(session: Session, name: str, role: Role, password: str | None = None) -> User:
    """A member of the default project, where their own role says what they may do."""
    user = User(name=name, role=role, password_hash=hash_password(password) if password else None)
    try:
        with session.begin_nested():
            session.add(user)
    except IntegrityError:
        raise ConflictError(f"there is a user {name} already") from None
    session.add(Membership(project_id=DEFAULT_PROJECT, user_id=user.id, role="editor"))
    return user


def find(session: Session, user_id: str) -> User:
    user = session.get(User, user_id) if is_id(user_id) else None
    if user is None:
        raise NotFoundError(f"there is no user {user_id}")
    return user


def users(session: Session, limit: int, cursor: str | None) -> tuple[Sequence[User], str | None]:
    """Newest first."""
    return page(session, select(User), [User.created_at, User.id], limit, cursor)


def by_password(session: Session, name: str, password: str) -> User | None:
    """The user of this name, unless the password is wrong or the user disabled. Takes as long in each case."""
    user = session.scalar(select(User).where(User.name == name))
    right = verify(user.password_hash if user else None, password)
    return user if right and user is not None and not user.disabled else None


def change(session: Session, user: User, role: Role | None = None, disabled: bool | None = None, password: str | None = None) -> None:
    """ConflictError if nobody could administer any more. A new password ends the sessions, and the tokens that the user has made."""
    with keeping_a_way_in(session):
        user.role = role or user.role
        user.disabled = user.disabled if disabled is None else disabled
        if password is not None:
            user.password_hash = hash_password(password)
            revoke_for_new_password(session, user.id)


def change_password(session: Session, user: User, current: str, new: str, token_id: str) -> None:
    """By the user. ForbiddenError if ``current`` is not the password; ends what else revoke_for_new_password ends."""
    if user.password_hash is not None and not verify(user.password_hash, current):
        raise ForbiddenError("the current password is wrong")
    user.password_hash = hash_password(new)
    revoke_for_new_password(session, user.id, spared=token_id)


def lock_admins(session: Session) -> None:
    """Two admins must not disable each other at the same moment."""
    session.execute(select(User.id).where(User.role == "admin").with_for_update())


@contextmanager
def keeping_a_way_in(session: Session) -> Iterator[None]:
    """ConflictError if what happens in the block locks the last admin out."""
    lock_admins(session)
    had_one = has_a_way_in(session)
    yield
    session.flush()
    if had_one and not has_a_way_in(session):
        raise ConflictError("nobody could administer this server any more: give another admin a password or a token first")


def has_a_way_in(session: Session) -> bool:
    """Whether an admin who is not disabled has a password, or a token for all that an admin may."""
    return bool(session.scalar(select(exists().where(User.role == "admin", User.disabled.is_(False), _has_key()))))


def _has_key() -> ColumnElement[bool]:
    lasting = or_(Token.expires_at.is_(None), Token.expires_at > time.time())
    whole = and_(Token.kind == "token", Token.scope == "admin", Token.project_id.is_(None))
    key = and_(Token.user_id == User.id, whole, Token.revoked_at.is_(None), lasting)
    return or_(User.password_hash.is_not(None), exists().where(key).correlate(User))
