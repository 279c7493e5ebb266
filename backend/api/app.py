"""The application factory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Depends, FastAPI

from backend.api import problems
from backend.api.access import OPEN, authorise
from backend.api.bell import Bell
from backend.api.gate import Gate
from backend.api.guard import Guard
from backend.api.limits import LoginLimits
from backend.api.routes import artifacts, audit, catalog, compare, events, health, runs, sessions, telemetry, tokens, tracking, users
from backend.api.strict import known_parameters
from backend.database import Database
from backend.jobs.celery import make_celery
from backend.jobs.silence import Silence
from backend.migrate import at_head
from backend.services.first_admin import ensure_admin
from backend.settings import Settings


def create_app(settings: Settings | None = None) -> FastAPI:
    """The API on the database of ``settings``, which has to be migrated (backend.migrate)."""
    settings = settings or Settings()
    database = Database(settings.database)
    bell = Bell(database, make_celery(settings), settings.sweep_seconds, Silence(database, settings.silence_seconds).end)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if at_head(database):
            ensure_admin(database, settings)
        bell.start()
        yield
        bell.stop()
        database.close()

    everywhere = [Depends(authorise), Depends(known_parameters)]
    app = _Api(title="Longtail", version=version("longtail"), lifespan=lifespan, dependencies=everywhere, docs_url=None, redoc_url=None)
    app.state.settings, app.state.database, app.state.bell = settings, database, bell
    app.state.login_limits = LoginLimits(settings.failed_logins_per_minute)
    app.state.streams = 0
    app.add_middleware(Gate, database=database, settings=settings)
    app.add_middleware(Guard, settings=settings)
    problems.install(app)
    app.include_router(health.router, responses=problems.documented(400, 422, 500))
    app.include_router(_v1())
    return app


def _v1() -> APIRouter:
    router = APIRouter(prefix="/api/v1", responses=problems.documented(400, 403, 408, 413, 422, 429, 500))
    for part in (catalog, tracking, runs, telemetry, events, artifacts, compare, sessions, tokens, users, audit):
        router.include_router(part.router)
    return router


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """FastAPI's schema, in which errors have their true media type, and what is not open says so."""
        if self.openapi_schema is None:
            document = super().openapi()
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    if (method.upper(), path) not in OPEN:
                        operation["security"] = [{"token": []}]
                        operation["responses"]["401"] = operation["responses"]["500"] | {"description": "Unauthorized"}
                    _correct(operation["responses"])
        assert self.openapi_schema is not None
        return self.openapi_schema


def _correct(responses: dict[str, Any]) -> None:
    for status, response in responses.items():
        if int(status) >= 400:
            response["content"] = {problems.MEDIA_TYPE: next(iter(response["content"].values()))}
