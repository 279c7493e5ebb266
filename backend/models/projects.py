"""What groups runs, and who may see it."""

import time

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from backend.models.base import ID_BYTES, Base, Id, new_id


class Project(Base):
    """Never deleted, only archived: runs name it without a foreign key."""

    __tablename__ = "projects"

    id: Mapped[Id] = mapped_column(primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    description: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[float] = mapped_column(default=time.time)
    archived_at: Mapped[float | None]


class Membership(Base):
    """What a user may do in a project. Who has none does not see it, but for global admins."""

    __tablename__ = "memberships"

    user_id: Mapped[str] = mapped_column(String(2 * ID_BYTES), ForeignKey("users.id", ondelete="CASCADE"), primary_key=True)
    project_id: Mapped[str] = mapped_column(String(2 * ID_BYTES), ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True)
    role: Mapped[str] = mapped_column(String(16))
