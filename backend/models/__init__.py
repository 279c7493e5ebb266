"""The tables. Times are seconds since the epoch, ids that users see are opaque."""

from backend.models.artifact import Artifact
from backend.models.base import Base, is_id, new_id
from backend.models.identity import AuditEntry, Token, User
from backend.models.queue import Doorbell, IdempotencyKey, Worker
from backend.models.run import Attempt, Run
from backend.models.telemetry import (
    Batch,
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

__all__ = [
    "Artifact",
    "Attempt",
    "AuditEntry",
    "Base",
    "Batch",
    "Doorbell",
    "DrafterSession",
    "IdempotencyKey",
    "LogLine",
    "Metric",
    "MetricBlock",
    "MetricKey",
    "Rollout",
    "Run",
    "Sample",
    "Span",
    "Speculation",
    "Stepped",
    "Token",
    "User",
    "Worker",
    "is_id",
    "new_id",
]
