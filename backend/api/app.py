"""The application factory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI

from backend.api import problems
from backend.api.bell import Bell
from backend.api.guard import Guard
from backend.api.routes import artifacts, catalog, compare, health, runs, telemetry
from backend.database import Database
from backend.jobs.celery import make_celery
from backend.settings import Settings


def create_app(settings: Settings | None = None) -> FastAPI:
    """The API on the database of ``settings``, which has to be migrated (backend.migrate)."""
    settings = settings or Settings()
    database = Database(settings.database)
    bell = Bell(database, make_celery(settings), settings.sweep_seconds)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        bell.start()
        yield
        bell.stop()
        database.close()

    app = _Api(title="Longtail", version=version("longtail"), lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.settings, app.state.database, app.state.bell = settings, database, bell
    app.add_middleware(Guard, settings=settings)
    problems.install(app)
    app.include_router(health.router, responses=problems.documented(400, 500))
    app.include_router(_v1())
    return app


def _v1() -> APIRouter:
    router = APIRouter(prefix="/api/v1", responses=problems.documented(400, 403, 413, 422, 500))
    for part in (catalog, runs, telemetry, artifacts, compare):
        router.include_router(part.router)
    return router


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """FastAPI's schema, in which errors have their true media type."""
        if self.openapi_schema is None:
            for path in super().openapi()["paths"].values():
                for operation in path.values():
                    _correct(operation["responses"])
        assert self.openapi_schema is not None
        return self.openapi_schema


def _correct(responses: dict[str, Any]) -> None:
    for status, response in responses.items():
        if int(status) >= 400:
            response["content"] = {problems.MEDIA_TYPE: next(iter(response["content"].values()))}
