"""The application factory."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

from anyio import CapacityLimiter
from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import BaseRoute

from backend.api import error_responses
from backend.api.authorization import PUBLIC, authorise
from backend.api.background.metric_batch_writer import MetricBatchWriter
from backend.api.background.periodic_thread import PeriodicThread
from backend.api.background.webhook_sender import WebhookSender
from backend.api.background.worker_notifier import WorkerNotifier
from backend.api.content_type import refuse_other_content_types
from backend.api.middleware.authentication import AuthenticationMiddleware
from backend.api.middleware.faults import FaultsMiddleware
from backend.api.middleware.head import HeadMiddleware
from backend.api.middleware.host_origin_and_body_size import HostOriginAndBodySizeMiddleware
from backend.api.middleware.request_log import RequestLogMiddleware
from backend.api.rate_limits import LoginLimits, RateLimit
from backend.api.routes import health
from backend.api.unknown_parameters import refuse_unknown_parameters
from backend.api.unstorable_body import refuse_unstorable_bodies
from backend.api.v1 import v1
from backend.database import Database
from backend.jobs.celery import make_celery
from backend.jobs.maintenance.silent_runs import SilentRunCloser
from backend.migrate import at_head
from backend.services.artifacts.upload_validation import CHECKS_AT_A_TIME
from backend.services.health.prometheus import PrometheusMetrics
from backend.services.health.readiness import Readiness
from backend.services.identity.first_admin import ensure_admin
from backend.settings import Settings
from backend.storage.open_store import open_store
from backend.storage.private_home import tighten_home

BATCH_AUDIT_SECONDS = 600.0
CHECKED = [Depends(check) for check in (authorise, refuse_unknown_parameters, refuse_other_content_types, refuse_unstorable_bodies)]
"""What every request goes through before its route."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """The API on the database of ``settings``, which has to be migrated (backend.migrate)."""
    settings = settings or Settings()
    database = Database(settings.database)
    celery = make_celery(settings)
    notifier, webhook_sender = WorkerNotifier(celery, settings.sweep_seconds), WebhookSender(database, settings)
    closing = PeriodicThread(
        "closing silent runs", SilentRunCloser(database, settings.silence_seconds).close_silent, settings.sweep_seconds
    )
    threads: tuple[PeriodicThread, ...] = (notifier, webhook_sender, closing)
    prometheus, batch_writer = PrometheusMetrics(database, settings), MetricBatchWriter(database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tighten_home(settings)
        if at_head(database):
            ensure_admin(database, settings)
        for thread in threads:
            thread.start()
        yield
        for thread in threads:
            thread.stop()
        batch_writer.close()
        database.close()

    app = _Api(title="Longtail", version=version("longtail"), lifespan=lifespan, dependencies=CHECKED, docs_url=None, redoc_url=None)
    app.state.settings, app.state.database, app.state.notifier, app.state.batch_writer = settings, database, notifier, batch_writer
    app.state.webhook_sender, app.state.prometheus, app.state.readiness = webhook_sender, prometheus, Readiness(database, celery, settings)
    app.state.store = open_store(settings)
    app.state.upload_checks = CapacityLimiter(CHECKS_AT_A_TIME)
    app.state.login_limits = LoginLimits(settings.failed_logins_per_minute)
    app.state.batch_audit_turns = RateLimit(1 / BATCH_AUDIT_SECONDS, 1)
    app.state.streams = Counter[str]()
    app.add_middleware(AuthenticationMiddleware, database=database, settings=settings)
    app.add_middleware(HeadMiddleware)
    app.add_middleware(FaultsMiddleware)
    app.add_middleware(HostOriginAndBodySizeMiddleware, settings=settings)
    app.add_middleware(RequestLogMiddleware, prometheus=prometheus)
    error_responses.install(app)
    app.router.routes += _routes()
    return app


@cache
def _routes() -> Sequence[BaseRoute]:
    """Those of every app, as all that they need of theirs comes with the request: to make them out takes longer than the rest of it."""
    router = APIRouter(dependencies=CHECKED)
    router.include_router(health.router, responses=error_responses.documented(400, 422, 500))
    router.include_router(v1(), prefix="/api/v1")
    return router.routes


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """FastAPI's schema, in which errors have their true media type, and what is not open says so."""
        if self.openapi_schema is None:
            document = super().openapi()
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    if (method.upper(), path) not in PUBLIC:
                        operation["security"] = [{"token": []}]
                        operation["responses"]["401"] = operation["responses"]["500"] | {"description": "Unauthorized"}
                    _correct(operation["responses"])
        assert self.openapi_schema is not None
        return self.openapi_schema


def _correct(responses: dict[str, Any]) -> None:
    for status, response in responses.items():
        if int(status) >= 400:
            response["content"] = {error_responses.MEDIA_TYPE: next(iter(response["content"].values()))}
