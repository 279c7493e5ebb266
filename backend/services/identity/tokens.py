"""What stands for a user: tokens for programs, sessions of browsers, tickets that turn into a session once."""

import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from backend.database import affected
from backend.errors import ConflictError, NotFoundError, UnauthorizedError
from backend.models import Token, User, is_id, new_id
from backend.services.pagination import page
from longtail.durations import DAY_SECONDS
from longtail.schemas.credentials import Link, LinkKey, Secret
from longtail.schemas.identity import Role, lesser

USABLE = ("token", "session")
KEEP_SECONDS = DAY_SECONDS


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
        root_id = token.id if token.kind == "token" else token.root_id or token.id
        return cls(token.user_id, token.user_name, role, token.user_role, token.id, root_id, token.last_used_at, token.project_id)


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
    """A new token and its secret, which is not kept; ``seconds`` until it expires, None: never. It lasts no longer than the token from
    which it comes."""
    now = time.time()
    secret = Secret.new(new_id())
    expires = min((end for end in (_end_of_root(session, kind, root_id), seconds and now + seconds) if end is not None), default=None)
    token = Token(id=secret.id, user=user, kind=kind, name=name, digest=secret.digest, scope=scope, created_at=now, expires_at=expires)
    token.root_id, token.project_id = root_id, project_id
    affected(session, delete(Token).where(Token.kind != "token", Token.expires_at < now - KEEP_SECONDS, ~_has_heirs()))
    session.add(token)
    session.flush()
    return token, secret.text


def make_room(session: Session, user: User, kind: str, most: int) -> None:
    """For one more of the user's tokens, sessions or tickets. Who has so many tokens has to revoke one, ConflictError; the oldest session
    or ticket gives way."""
    session.execute(select(User.id).where(User.id == user.id).with_for_update(key_share=True))  # else many at the same moment pass
    own = and_(Token.user_id == user.id, Token.kind == kind)
    lasting = and_(Token.revoked_at.is_(None), or_(Token.expires_at.is_(None), Token.expires_at > time.time()))
    if kind == "token":
        if (session.scalar(select(func.count()).where(own, lasting)) or 0) >= most:
            raise ConflictError(f"{user.name} has {most} tokens, which is the most: revoke one that is not needed any more")
        return
    latest_first = select(Token.id).where(own, lasting).order_by(Token.created_at.desc(), Token.id.desc())
    _end(session, Token.id.in_(latest_first.offset(most - 1)))
    affected(session, delete(Token).where(own, ~lasting, ~_has_heirs()))


def identify(session: Session, text: str, kinds: Sequence[str] = USABLE) -> Identity | None:
    """Whose secret ``text`` is, if it is that of a token of these kinds, neither revoked nor expired, and its user is not disabled."""
    secret = Secret.parse(text)
    token = _valid(session, secret.id, kinds) if secret else None
    return Identity.of(token) if secret and token and hmac.compare_digest(token.digest, secret.digest) else None


def still_valid(session: Session, token_id: str) -> Identity:
    """Who has come by this token, as of now; UnauthorizedError if it has ended meanwhile."""
    token = _valid(session, token_id, USABLE)
    if token is None:
        raise UnauthorizedError("the token has ended meanwhile")
    return Identity.of(token)


def identify_link(session: Session, text: str, path: str, server_secret: bytes) -> Identity | None:
    """Who signed the link ``text`` for the download ``path``, if their token still stands for them."""
    link = Link.parse(text)
    if link is None or not link.opens(path, LinkKey.of(link.id, server_secret), time.time()):
        return None
    token = _valid(session, link.id, USABLE)
    return Identity.of(token) if token else None


def open_session(session: Session, user: User, seconds: float, proof: Token | None = None) -> tuple[Token, str]:
    """A browser's session. It may, sees and lasts no more than the token that ``proof`` is or stems from (None: a password)."""
    if proof is None:
        return issue(session, user, "session", "browser", "admin", seconds)
    root_id = proof.id if proof.kind == "token" else proof.root_id
    return issue(session, user, "session", "browser", proof.scope, seconds, root_id, proof.project_id)


def spend(session: Session, token: Token) -> bool:
    """Uses a ticket up; False if somebody was faster."""
    return affected(session, update(Token).where(Token.id == token.id, Token.revoked_at.is_(None)).values(revoked_at=time.time())) == 1


def revoke(session: Session, token: Token) -> None:
    """Ends it, and all that came of it, however far down."""
    ended = select(Token.id).where(Token.id == token.id).cte(recursive=True)
    ended = ended.union(select(Token.id).where(Token.root_id == ended.c.id))
    _end(session, Token.id.in_(select(ended.c.id)))
    session.refresh(token)


def log_out(session: Session, token: Token) -> None:
    """Ends it as its holder wishes: of a session the tokens stay that were made in it."""
    if token.kind == "token":
        revoke(session, token)
    else:
        _end(session, or_(Token.id == token.id, and_(Token.root_id == token.id, Token.kind != "token")))


def revoke_for_new_password(session: Session, user_id: str, spared: str | None = None) -> None:
    """Ends a user's sessions and tickets, and the tokens that the user has made, but for ``spared``: who knew the old password may have
    made them. Those from an admin and the first start's stay."""
    _end(session, and_(Token.user_id == user_id, or_(Token.kind != "token", Token.root_id.is_not(None)), Token.id != (spared or "")))


def _end(session: Session, which: ColumnElement[bool]) -> None:
    affected(session, update(Token).where(which, Token.revoked_at.is_(None)).values(revoked_at=time.time()))


def _has_heirs() -> ColumnElement[bool]:
    """Whether something comes from a token, and has to end with what that one comes from."""
    heir = aliased(Token)
    return exists().where(heir.root_id == Token.id)


def _end_of_root(session: Session, kind: str, root_id: str | None) -> float | None:
    """When what comes from ``root_id`` has to expire; None: never. A token outlasts its session, not that one's token."""
    root = session.get(Token, root_id) if root_id else None
    while root is not None and root.kind != "token" == kind:
        root = session.get(Token, root.root_id) if root.root_id else None
    return root.expires_at if root else None


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
