"""The routes of version 1."""

from fastapi import APIRouter

from backend.api import error_responses
from backend.api.routes import (
    artifacts,
    comparison,
    events,
    export,
    plans,
    presets,
    projects,
    queue,
    run_overviews,
    runs,
    telemetry,
    tracking,
    webhooks,
)
from backend.api.routes.identity import audit, preferences, sessions, tokens, users

RUNS = (presets, plans, projects, tracking, runs, run_overviews, queue)
RESULTS = (telemetry, events, artifacts, comparison, export)
ADMINISTRATION = (sessions, preferences, tokens, users, audit, webhooks)


def v1() -> APIRouter:
    """All of them, with the errors that any of them may answer."""
    router = APIRouter(responses=error_responses.documented(400, 403, 408, 413, 415, 422, 429, 500))
    for routes in (*RUNS, *RESULTS, *ADMINISTRATION):
        router.include_router(routes.router)
    return router
