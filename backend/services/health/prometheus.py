"""What the platform knows of itself, in Prometheus' words: this process' own latencies, and what the database says at that moment."""

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from backend.database import Database
from backend.services.health.gauges import gauge, platform_gauges
from backend.services.identity.tokens import Identity
from backend.settings import Settings

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class PrometheusMetrics:
    """``latency`` is by method, route template and status, in seconds until the answer began."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._registry = CollectorRegistry()
        self._database, self._settings = database, settings
        labels = ("method", "route", "status")
        about = "Seconds until the answer began"
        self.latency = Histogram("longtail_http_request_seconds", about, labels, registry=self._registry, buckets=BUCKETS)
        ProcessCollector(registry=self._registry)

    def text(self, identity: Identity | None) -> bytes:
        """What ``identity`` may know; None: somebody without a token."""
        platform = CollectorRegistry()
        platform.register(_Platform(self._database, self._settings, identity))
        return generate_latest(self._registry) + generate_latest(platform)


class _Platform(Collector):
    def __init__(self, database: Database, settings: Settings, identity: Identity | None) -> None:
        self._database, self._settings, self._identity = database, settings, identity

    def describe(self) -> list[Metric]:
        """Nothing, so that the database is not asked to register it."""
        return []

    def collect(self) -> Iterator[Metric]:
        try:
            with self._database.read() as session:
                found = list(platform_gauges(session, self._settings, self._identity, time.time()))
        except SQLAlchemyError:
            found = []
        yield gauge("database_up", "Whether the database answers; if not, it says nothing else", {(): float(bool(found))})
        yield from found
