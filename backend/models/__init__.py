"""The tables. Times are seconds since the epoch, ids that users see are opaque."""

from backend.models.artifacts import Artifact
from backend.models.base import Base, is_id, new_id
from backend.models.identity import AuditEntry, Preference, Token, User
from backend.models.projects import Membership, Project
from backend.models.queue import IdempotencyKey, Worker
from backend.models.runs import Attempt, Run, RunValue
from backend.models.telemetry import (
    Batch,
    Decoding,
    DrafterSession,
    LogLine,
    Metric,
    MetricBlock,
    MetricKey,
    PretrainingRound,
    Rollout,
    Sample,
    Speculation,
    Stepped,
    WorkerSpan,
)
from backend.models.webhooks import Delivery, Webhook

__all__ = [
    "Artifact",
    "Attempt",
    "AuditEntry",
    "Base",
    "Batch",
    "Decoding",
    "Delivery",
    "DrafterSession",
    "IdempotencyKey",
    "LogLine",
    "Membership",
    "Metric",
    "MetricBlock",
    "MetricKey",
    "Preference",
    "PretrainingRound",
    "Project",
    "Rollout",
    "Run",
    "RunValue",
    "Sample",
    "Speculation",
    "Stepped",
    "Token",
    "User",
    "Webhook",
    "Worker",
    "WorkerSpan",
    "is_id",
    "new_id",
]
