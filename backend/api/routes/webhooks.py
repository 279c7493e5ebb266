"""Webhooks, for admins: who is told of what happens to runs."""

from fastapi import APIRouter, Response

from backend.api.dependencies import Cursor, DatabaseDep, Limit, ReadSession, WebhookSenderDep
from backend.api.error_responses import documented
from backend.api.location import point_to
from backend.services.webhooks import deliveries, subscriptions
from longtail.schemas.webhooks import Delivery, DeliveryPage, NewWebhook, WebhookPage, WebhookRequest

router = APIRouter(prefix="/webhooks", tags=["webhooks"])


@router.get("")
def list_webhooks(session: ReadSession, limit: Limit = 50, cursor: Cursor = None) -> WebhookPage:
    """Newest first."""
    return WebhookPage.from_rows(subscriptions.webhooks(session, limit, cursor))


@router.post("", status_code=201, responses=documented(404, 409))
def add_webhook(body: WebhookRequest, response: Response, database: DatabaseDep) -> NewWebhook:
    """From now on ``url`` gets a message, signed with the secret that is shown this once, for every event of these kinds."""
    with database.write() as session:
        webhook = subscriptions.add(session, body.url, body.events, body.project_id)
        point_to(response, "webhooks", webhook.id)
        return NewWebhook.model_validate(webhook)


@router.delete("/{webhook_id}", status_code=204, responses=documented(404))
def remove_webhook(webhook_id: str, database: DatabaseDep) -> None:
    """With all its messages, sent or not."""
    with database.write() as session:
        subscriptions.remove(session, subscriptions.find(session, webhook_id))


@router.post("/{webhook_id}/test", status_code=202, responses=documented(404))
def test_webhook(webhook_id: str, database: DatabaseDep, webhook_sender: WebhookSenderDep) -> Delivery:
    """Sends a ping, once. What becomes of it is among the deliveries within seconds."""
    with database.write() as session:
        delivery = Delivery.model_validate(deliveries.ping(session, subscriptions.find(session, webhook_id)))
    webhook_sender.nudge()
    return delivery


@router.get("/{webhook_id}/deliveries", responses=documented(404))
def list_deliveries(webhook_id: str, session: ReadSession, limit: Limit = 50, cursor: Cursor = None) -> DeliveryPage:
    """What was sent to it, or is to be sent, in the last 30 days, newest first."""
    return DeliveryPage.from_rows(deliveries.deliveries(session, subscriptions.find(session, webhook_id), limit, cursor))
