"""Who may do what, and who did."""

import time
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from backend.models.base import ID_BYTES, Base, Id, new_id


class User(Base):
    """``disabled`` users get nowhere, whatever tokens they have. Without ``password_hash`` nobody logs in by password."""

    __tablename__ = "users"

    id: Mapped[Id] = mapped_column(primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    password_hash: Mapped[str | None] = mapped_column(Text)
    disabled: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[float] = mapped_column(default=time.time)

    @property
    def has_password(self) -> bool:
        return self.password_hash is not None


class Token(Base):
    """What stands for a user. ``kind``: "token" (for programs), "session" (of a browser) or "ticket" (turns into a session, once).

    ``digest`` is the SHA-256 of the secret, which only its holder has. ``scope`` is a role: the most that it allows. ``root_id`` is the
    token or session from which it comes, and with which it ends; null where an admin, a password or the first start has made it. With a
    ``project_id`` it opens nothing outside that project.
    """

    __tablename__ = "tokens"
    __table_args__ = (Index("ix_tokens_user", "user_id", "created_at", "id"),)

    id: Mapped[Id] = mapped_column(primary_key=True, default=new_id)
    user_id: Mapped[str] = mapped_column(String(2 * ID_BYTES), ForeignKey("users.id", ondelete="CASCADE"))
    root_id: Mapped[str | None] = mapped_column(String(2 * ID_BYTES), index=True)
    project_id: Mapped[str | None] = mapped_column(String(2 * ID_BYTES))
    kind: Mapped[str] = mapped_column(String(16), default="token")
    name: Mapped[str] = mapped_column(String(100))
    digest: Mapped[str] = mapped_column(String(64))
    scope: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[float] = mapped_column(default=time.time)
    expires_at: Mapped[float | None]
    last_used_at: Mapped[float | None]
    revoked_at: Mapped[float | None]
    user: Mapped[User] = relationship(lazy="joined", innerjoin=True)

    @property
    def user_name(self) -> str:
        return self.user.name


class Preference(Base):
    """What a user keeps for the dashboard, such as pinned charts and saved views."""

    __tablename__ = "preferences"

    user_id: Mapped[str] = mapped_column(String(2 * ID_BYTES), ForeignKey("users.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[list[Any]]


class AuditEntry(Base):
    """One write: who did what, to what, when, from where. Stays when the user goes."""

    __tablename__ = "audit"
    __table_args__ = (Index("ix_audit_user", "user_name", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    time: Mapped[float] = mapped_column(default=time.time)
    user_name: Mapped[str] = mapped_column(String(64))
    token_id: Mapped[str | None] = mapped_column(String(2 * ID_BYTES))
    action: Mapped[str] = mapped_column(String(64))
    object: Mapped[str] = mapped_column(Text)
    address: Mapped[str] = mapped_column(String(64))
