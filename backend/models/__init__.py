"""The tables. Times are seconds since the epoch, ids that users see are opaque."""

from backend.models.artifact import Artifact
from backend.models.base import Base, is_id, new_id
from backend.models.identity import AuditEntry, Token, User
from backend.models.project import Membership, Project
from backend.models.queue import Doorbell, IdempotencyKey, Worker
from backend.models.run import Attempt, Run, RunValue
from backend.models.telemetry import (
    Batch,
    Decoding,
    DrafterSession,
    LogLine,
    Metric,
    MetricBlock,
    MetricKey,
    Rollout,
    Sample,
    Span,
    Speculation,
    Stepped,
)
from backend.models.webhook import Delivery, Webhook

__all__ = [
    "Artifact",
    "Attempt",
    "AuditEntry",
    "Base",
    "Batch",
    "Decoding",
    "Delivery",
    "Doorbell",
    "DrafterSession",
    "IdempotencyKey",
    "LogLine",
    "Membership",
    "Metric",
    "MetricBlock",
    "MetricKey",
    "Project",
    "Rollout",
    "Run",
    "RunValue",
    "Sample",
    "Span",
    "Speculation",
    "Stepped",
    "Token",
    "User",
    "Webhook",
    "Worker",
    "is_id",
    "new_id",
]
