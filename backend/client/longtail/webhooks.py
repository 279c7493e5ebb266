"""The client's methods about webhooks, for admins."""

from collections.abc import Sequence

from longtail.schemas.webhooks import ENDINGS, Delivery, DeliveryPage, Event, NewWebhook, WebhookPage
from longtail.transport import Transport


class Webhooks(Transport):
    def add_webhook(self, url: str, events: Sequence[Event] = ENDINGS, project_id: str | None = None) -> NewWebhook:
        """The only time that its secret is seen. With a ``project_id`` it hears of that project's runs only."""
        return self._post(NewWebhook, "/api/v1/webhooks", {"url": url, "events": list(events), "project_id": project_id})

    def webhooks(self, limit: int = 50, cursor: str | None = None) -> WebhookPage:
        """Newest first."""
        return self._get(WebhookPage, "/api/v1/webhooks", limit=limit, cursor=cursor)

    def remove_webhook(self, webhook_id: str) -> None:
        self._request("DELETE", f"/api/v1/webhooks/{webhook_id}")

    def test_webhook(self, webhook_id: str) -> Delivery:
        """A ping that is about to be sent; ``deliveries`` says what became of it."""
        return self._post(Delivery, f"/api/v1/webhooks/{webhook_id}/test")

    def deliveries(self, webhook_id: str, limit: int = 50, cursor: str | None = None) -> DeliveryPage:
        """Newest first."""
        return self._get(DeliveryPage, f"/api/v1/webhooks/{webhook_id}/deliveries", limit=limit, cursor=cursor)
