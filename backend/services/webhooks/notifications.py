"""Tells webhooks what happens to runs: each message is left in the transaction of what it tells of, and sent later."""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from backend.models import Delivery, Run, Webhook

FACTS = (
    *(Run.id, Run.name, Run.state, Run.owner, Run.tags, Run.step, Run.steps),
    *(Run.pretraining, Run.attempt, Run.error, Run.error_code),
)


def queue_deliveries(session: Session, run_id: str, event: str, **more: Any) -> None:
    """``event`` of this run, as it is now in this transaction, for each webhook that wants to know."""
    here = select(Run.project_id).where(Run.id == run_id).scalar_subquery()
    hooks = session.execute(select(Webhook.id, Webhook.events).where(or_(Webhook.project_id.is_(None), Webhook.project_id == here))).all()
    if wanting := _kept(session, [webhook_id for webhook_id, events in hooks if event in events]):
        run = session.execute(select(*FACTS).where(Run.id == run_id)).one()
        body = message(event, {"run": dict(run._mapping)} | more)
        session.add_all(Delivery(webhook_id=webhook_id, event=event, body=body) for webhook_id in wanting)


def _kept(session: Session, ids: list[str]) -> Sequence[str]:
    """Those that are still there, and will be until the transaction is over: a webhook that is removed meanwhile must not make it fail."""
    kept = select(Webhook.id).where(Webhook.id.in_(ids)).with_for_update(read=True, key_share=True)
    return session.scalars(kept).all() if ids else []


def message(event: str, data: Mapping[str, Any]) -> str:
    """What is sent, as JSON."""
    return json.dumps({"type": event, "timestamp": datetime.fromtimestamp(time.time(), UTC).isoformat(), "data": data})
