"""Who is told of what happens to runs, and the messages to them."""

import time

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from backend.models.base import ID_BYTES, Base, Id, new_id


class Webhook(Base):
    """``secret`` signs the messages, so it has to be kept as it is; it is shown once. With a ``project_id`` it hears of that project's
    runs only."""

    __tablename__ = "webhooks"

    id: Mapped[Id] = mapped_column(primary_key=True, default=new_id)
    url: Mapped[str] = mapped_column(Text)
    events: Mapped[list[str]]
    secret: Mapped[str] = mapped_column(String(64))
    project_id: Mapped[str | None] = mapped_column(String(2 * ID_BYTES))
    created_at: Mapped[float] = mapped_column(default=time.time)


class Delivery(Base):
    """Outbox: a message, written in the transaction of what it tells of. ``state`` is "pending", "delivered" or "failed" (given up).

    ``status`` (of HTTP) and ``error`` are of the latest of its ``tries``.
    """

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index("ix_webhook_deliveries_due", "state", "next_try_at"),
        Index("ix_webhook_deliveries_list", "webhook_id", "created_at", "id"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True, default=new_id)
    webhook_id: Mapped[str] = mapped_column(String(2 * ID_BYTES), ForeignKey("webhooks.id", ondelete="CASCADE"))
    event: Mapped[str] = mapped_column(String(32))
    body: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16), default="pending")
    tries: Mapped[int] = mapped_column(default=0)
    next_try_at: Mapped[float] = mapped_column(default=time.time)
    created_at: Mapped[float] = mapped_column(default=time.time)
    finished_at: Mapped[float | None]
    status: Mapped[int | None]
    error: Mapped[str | None] = mapped_column(Text)
