"""Who is told of what happens to runs."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from longtail.schemas.base import Body, Page, Schema

Event = Literal[
    "run.queued",
    "run.starting",
    "run.running",
    "run.paused",
    "run.succeeded",
    "run.failed",
    "run.cancelled",
    "run.alarm",
    "run.reward_fell",
    "run.acceptance_collapsed",
]
ENDINGS: tuple[Event, ...] = ("run.succeeded", "run.failed", "run.cancelled", "run.alarm")
_PORT = r"[1-5]?[0-9]{1,4}|6[0-4][0-9]{3}"
Url = Annotated[str, Field(max_length=500, pattern=rf"^https?://[a-zA-Z0-9][a-zA-Z0-9.-]{{0,200}}(:({_PORT}))?(/[!-~]*)?$")]


class WebhookRequest(Body):
    """``url``: https://, or http:// within LONGTAIL_WEBHOOK_NETWORKS. ``events``: what to tell of. ``project_id``: of this project's runs
    only; null: of all."""

    url: Url
    project_id: str | None = Field(None, max_length=16)
    events: list[Event] = Field(list(ENDINGS), min_length=1, max_length=20)


class Webhook(Schema):
    id: str
    url: str
    events: list[Event]
    project_id: str | None = None
    created_at: datetime


class NewWebhook(Webhook):
    """``secret`` is shown this once. It signs the messages as the Standard Webhooks specification says."""

    secret: str


class WebhookPage(Page[Webhook]):
    pass


class Delivery(Schema):
    """A message, which its receiver knows by ``id``. failed: given up. ``status`` and ``error`` are of the latest try."""

    id: str
    event: str
    state: Literal["pending", "delivered", "failed"]
    tries: int
    status: int | None
    error: str | None
    created_at: datetime
    finished_at: datetime | None


class DeliveryPage(Page[Delivery]):
    pass
