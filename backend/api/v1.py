"""The routes of version 1."""

from fastapi import APIRouter

from backend.api import problems
from backend.api.routes import (
    artifacts,
    audit,
    catalog,
    compare,
    events,
    export,
    glances,
    projects,
    queue,
    runs,
    sessions,
    telemetry,
    tokens,
    tracking,
    users,
    webhooks,
)


def v1() -> APIRouter:
    """All of them, with the errors that any of them may answer."""
    router = APIRouter(prefix="/api/v1", responses=problems.documented(400, 403, 408, 413, 422, 429, 500))
    for part in (
        catalog,
        projects,
        tracking,
        runs,
        glances,
        queue,
        telemetry,
        events,
        artifacts,
        compare,
        export,
        sessions,
        tokens,
        users,
        audit,
        webhooks,
    ):
        router.include_router(part.router)
    return router
