"""The application factory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI

from backend.api import problems
from backend.api.access import OPEN, authorise
from backend.api.bell import Bell
from backend.api.chore import Chore
from backend.api.courier import Courier
from backend.api.gate import Gate
from backend.api.guard import Guard
from backend.api.journal import Journal
from backend.api.limits import LoginLimits
from backend.api.measures import Measures
from backend.api.readiness import Readiness
from backend.api.routes import health
from backend.api.scribe import Scribe
from backend.api.strict import known_parameters
from backend.api.v1 import v1
from backend.database import Database
from backend.jobs.celery import make_celery
from backend.jobs.silence import Silence
from backend.migrate import at_head
from backend.services.first_admin import ensure_admin
from backend.settings import Settings
from backend.store import open_store


def create_app(settings: Settings | None = None) -> FastAPI:
    """The API on the database of ``settings``, which has to be migrated (backend.migrate)."""
    settings = settings or Settings()
    database = Database(settings.database)
    celery = make_celery(settings)
    bell, courier = Bell(database, celery, settings.sweep_seconds), Courier(database, settings)
    closing = Chore("closing silent runs", Silence(database, settings.silence_seconds).end, settings.sweep_seconds)
    chores: tuple[Chore, ...] = (bell, courier, closing)
    measures, scribe = Measures(database, settings), Scribe(database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if at_head(database):
            ensure_admin(database, settings)
        for chore in chores:
            chore.start()
        yield
        for chore in chores:
            chore.stop()
        scribe.close()
        database.close()

    everywhere = [Depends(authorise), Depends(known_parameters)]
    app = _Api(title="Longtail", version=version("longtail"), lifespan=lifespan, dependencies=everywhere, docs_url=None, redoc_url=None)
    app.state.settings, app.state.database, app.state.bell, app.state.scribe = settings, database, bell, scribe
    app.state.courier, app.state.measures, app.state.readiness = courier, measures, Readiness(database, celery, settings)
    app.state.store = open_store(settings)
    app.state.login_limits = LoginLimits(settings.failed_logins_per_minute)
    app.state.streams = 0
    app.add_middleware(Gate, database=database, settings=settings)
    app.add_middleware(Guard, settings=settings)
    app.add_middleware(Journal, measures=measures)
    problems.install(app)
    app.include_router(health.router, responses=problems.documented(400, 422, 500))
    app.include_router(v1())
    return app


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
