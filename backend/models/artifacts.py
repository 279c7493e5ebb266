"""Files that users can download."""

import time

from sqlalchemy import Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from backend.models.base import Base, BigInt, Id, RunReference, new_id
from backend.models.runs import Run


class Artifact(Base):
    """A version of what a run calls ``name``. Its content is in the store under its SHA-256 since ``stored_at``.

    ``path``: where in the run's folder the engine has left it, and never outside; null where it is no longer needed there.
    ``missing_since``: when it was found that the content is in neither place. ``card`` is the text of its model card.
    """

    __tablename__ = "artifacts"
    __table_args__ = (
        UniqueConstraint("run_id", "name", "version", name="uq_artifacts_version"),
        Index("ix_artifacts_list", "created_at", "id"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True, default=new_id)
    run_id: Mapped[RunReference]
    name: Mapped[str] = mapped_column(Text)
    version: Mapped[int] = mapped_column(default=1)
    type: Mapped[str] = mapped_column(String(16))
    path: Mapped[str | None] = mapped_column(Text)
    bytes: Mapped[BigInt]
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    details: Mapped[dict[str, str]] = mapped_column(default=dict)
    card: Mapped[str | None] = mapped_column(Text, deferred=True)
    created_at: Mapped[float] = mapped_column(default=time.time)
    stored_at: Mapped[float | None]
    missing_since: Mapped[float | None]
    run: Mapped[Run] = relationship()

    @property
    def run_name(self) -> str:
        return self.run.name

    @property
    def project_id(self) -> str:
        return self.run.project_id

    @property
    def accept_length(self) -> float | None:
        return self.run.summary.get("accept_length") if self.type == "drafter" else None

    @property
    def stored(self) -> bool:
        return self.stored_at is not None

    @property
    def missing(self) -> bool:
        return self.missing_since is not None
