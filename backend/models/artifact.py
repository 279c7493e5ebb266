"""Files that users can download."""

import time

from sqlalchemy import String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from backend.models.base import Base, BigInt, Id, RunReference, new_id


class Artifact(Base):
    """``path`` is relative to the run's folder and never leaves it."""

    __tablename__ = "artifacts"
    __table_args__ = (UniqueConstraint("run_id", "path"),)

    id: Mapped[Id] = mapped_column(primary_key=True, default=new_id)
    run_id: Mapped[RunReference]
    name: Mapped[str] = mapped_column(Text)
    type: Mapped[str] = mapped_column(String(16))
    path: Mapped[str] = mapped_column(Text)
    bytes: Mapped[BigInt]
    sha256: Mapped[str] = mapped_column(String(64))
    details: Mapped[dict[str, str]] = mapped_column(default=dict)
    created_at: Mapped[float] = mapped_column(default=time.time)
