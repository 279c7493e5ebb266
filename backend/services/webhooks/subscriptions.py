"""Webhooks: who is told of what happens to runs."""

import base64
import secrets
from collections.abc import Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from backend.database import affected
from backend.errors import ConflictError, NotFoundError
from backend.models import Project, Webhook, is_id
from backend.services.pagination import page

MOST = 50
SECRET_PREFIX = "whsec_"


def add(session: Session, url: str, events: Sequence[str], project_id: str | None = None) -> Webhook:
    """NotFoundError if there is no such project."""
    if project_id is not None and (not is_id(project_id) or session.get(Project, project_id) is None):
        raise NotFoundError(f"there is no project {project_id}")
    if (session.scalar(select(func.count()).select_from(Webhook)) or 0) >= MOST:
        raise ConflictError(f"there are {MOST} webhooks already; remove one first")
    secret = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
    webhook = Webhook(url=url, events=sorted(set(events)), secret=secret, project_id=project_id)
    session.add(webhook)
    session.flush()
    return webhook


def find(session: Session, webhook_id: str) -> Webhook:
    webhook = session.get(Webhook, webhook_id) if is_id(webhook_id) else None
    if webhook is None:
        raise NotFoundError(f"there is no webhook {webhook_id}")
    return webhook


def webhooks(session: Session, limit: int, cursor: str | None) -> tuple[Sequence[Webhook], str | None]:
    """Newest first."""
    return page(session, select(Webhook), [Webhook.created_at, Webhook.id], limit, cursor)


def remove(session: Session, webhook: Webhook) -> None:
    """With its messages, sent or not."""
    affected(session, delete(Webhook).where(Webhook.id == webhook.id))
