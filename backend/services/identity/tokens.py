"""What stands for a user: tokens for programs, sessions of browsers, tickets that turn into a session once."""

import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, bindparam, delete, or_, select, update
from sqlalchemy.orm import Session

from backend.database import affected
from backend.errors import NotFoundError
from backend.models import Token, User, is_id, new_id
from backend.services.pagination import page
from longtail.schemas.credentials import Link, Secret
from longtail.schemas.identity import Role, lesser

USABLE = ("token", "session")
KEEP_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Identity:
    """Who asks, by which token. ``role`` is what this token allows, ``user_role`` what the user may at most. With a ``project_id`` nothing
    outside that project is in sight.
    """

    user_id: str
    user_name: str
    role: Role
    user_role: Role
    token_id: str
    root_id: str
    last_used_at: float | None
    project_id: str | None = None

    @property
    def is_unrestricted(self) -> bool:
        """Whether the token stands for all that the user may; only such a one manages the account."""
        return self.role == self.user_role and self.project_id is None

    @classmethod
    def of(cls, token: Row[Any]) -> "Identity":
        role = lesser(token.scope, token.user_role)
        if token.project_id is not None:
            role = lesser(role, "editor")  # an admin rules over more than one project
        stem = token.root_id or token.id, token.last_used_at, token.project_id
        return cls(token.user_id, token.user_name, role, token.user_role, token.id, *stem)


OF_TOKEN = (
    select(Token.__table__, User.name.label("user_name"), User.role.label("user_role"), User.disabled)
    .join(User, Token.user_id == User.id)
    .where(Token.id == bindparam("token_id"))
)
"""As a row, since every request asks for one: an object costs more than all else that it takes to find out who asks."""


def issue(
    session: Session,
    user: User,
    kind: str,
    name: str,
    scope: str,
    seconds: float | None,
    root_id: str | None = None,
    project_id: str | None = None,
) -> tuple[Token, str]:
    """A new token and its secret, which is not kept; ``seconds`` until it expires, None: never."""
    now = time.time()
    secret = Secret.new(new_id())
    expires = None if seconds is None else now + seconds
    token = Token(id=secret.id, user=user, kind=kind, name=name, digest=secret.digest, scope=scope, created_at=now, expires_at=expires)
    token.root_id, token.project_id = root_id, project_id
    forgotten = delete(Token).where(Token.kind != "token", Token.expires_at < now - KEEP_SECONDS)
    affected(session, forgotten)
    session.add(token)
    session.flush()
    return token, secret.text


def identify(session: Session, text: str, kinds: Sequence[str] = USABLE) -> Identity | None:
    """Whose secret ``text`` is, if it is that of a token of these kinds, neither revoked nor expired, and its user is not disabled."""
    secret = Secret.parse(text)
    token = _valid(session, secret.id, kinds) if secret else None
    return Identity.of(token) if secret and token and hmac.compare_digest(token.digest, secret.digest) else None


def identify_link(session: Session, text: str, path: str) -> Identity | None:
    """Who signed the link ``text`` for ``path``, if their token still stands for them."""
    link = Link.parse(text)
    token = _valid(session, link.id, USABLE) if link else None
    return Identity.of(token) if link and token and link.opens(path, token.digest, time.time()) else None


def open_session(session: Session, user: User, seconds: float, proof: Token | None = None) -> tuple[Token, str]:
    """A browser's session. It may, sees and lasts no more than the token that ``proof`` is or stems from (None: a password)."""
    root = session.get(Token, proof.root_id) if proof and proof.root_id else proof
    left = root.expires_at - time.time() if root and root.expires_at else seconds
    scope = proof.scope if proof else "admin"
    return issue(
        session, user, "session", "browser", scope, min(seconds, left), root.id if root else None, proof.project_id if proof else None
    )


def spend(session: Session, token: Token) -> bool:
    """Uses a ticket up; False if somebody was faster."""
    return affected(session, update(Token).where(Token.id == token.id, Token.revoked_at.is_(None)).values(revoked_at=time.time())) == 1


def revoke(session: Session, token: Token) -> None:
    """Ends it, and what came of it."""
    ended = update(Token).where(or_(Token.id == token.id, Token.root_id == token.id), Token.revoked_at.is_(None))
    affected(session, ended.values(revoked_at=time.time()))
    session.refresh(token)


def revoke_sessions(session: Session, user_id: str, spared: str | None = None) -> None:
    """Ends a user's sessions and tickets, but for the session ``spared``."""
    ended = update(Token).where(Token.user_id == user_id, Token.kind != "token", Token.revoked_at.is_(None), Token.id != (spared or ""))
    affected(session, ended.values(revoked_at=time.time()))


def find(session: Session, token_id: str) -> Token:
    token = session.get(Token, token_id) if is_id(token_id) else None
    if token is None or token.kind not in USABLE:
        raise NotFoundError(f"there is no token {token_id}")
    return token


def tokens(session: Session, user_id: str | None, limit: int, cursor: str | None) -> tuple[Sequence[Token], str | None]:
    """Newest first; of one user, or of all."""
    query = select(Token).where(Token.kind.in_(USABLE))
    if user_id is not None:
        query = query.where(Token.user_id == user_id)
    return page(session, query, [Token.created_at, Token.id], limit, cursor)


def note_use(session: Session, token_id: str) -> None:
    affected(session, update(Token).where(Token.id == token_id).values(last_used_at=time.time()))


def _valid(session: Session, token_id: str, kinds: Sequence[str]) -> Row[Any] | None:
    token = session.connection().execute(OF_TOKEN, {"token_id": token_id}).one_or_none()
    if token is None or token.kind not in kinds or token.revoked_at is not None or token.disabled:
        return None
    return token if token.expires_at is None or token.expires_at > time.time() else None
