"""Who may call what. Deny by default: a route that is not named here needs a token, of an editor if it writes, and a part in the project
of what its path names (services.projects.membership_check)."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import Scope

from backend.database import Database
from backend.errors import ForbiddenError
from backend.services.identity.tokens import Identity
from backend.services.projects import membership_check
from backend.settings import Settings
from longtail.schemas.identity import Role, allows, lesser

PUBLIC = frozenset({("GET", "/healthz"), ("GET", "/readyz"), ("POST", "/api/v1/sessions")})
LOOPBACK = frozenset({"127.0.0.1", "::1"})
FORWARDING = frozenset({"forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"})
METRICS = ("GET", "/metrics")
ROLE_OF_ROUTE: Mapping[str, Role] = {
    "log_out": "viewer",
    "create_ticket": "viewer",
    "set_preference": "viewer",
    "set_password": "viewer",
    "create_token": "viewer",
    "plan": "viewer",
    "revoke_token": "viewer",
    "list_users": "admin",
    "add_user": "admin",
    "change_user": "admin",
    "create_user_token": "admin",
    "audit": "admin",
    "list_webhooks": "admin",
    "add_webhook": "admin",
    "remove_webhook": "admin",
    "test_webhook": "admin",
    "list_deliveries": "admin",
}


def is_public(scope: Scope, settings: Settings) -> bool:
    """Whether nobody needs a token for this request. Who comes to the metrics with one is told what it may see."""
    asked = scope["method"], scope["path"]
    bare = asked == METRICS and not Headers(scope=scope).get("authorization")
    return asked in PUBLIC or (bare and settings.open_metrics and _is_local(scope))


def needed(method: str, name: str) -> Role:
    """The least role for the route of this name, which is that of its function."""
    return ROLE_OF_ROUTE.get(name, "viewer" if method == "GET" else "editor")


async def authorise(request: Request) -> None:
    """Runs before every route. Who asks has been found out by AuthenticationMiddleware, without which only what is PUBLIC gets here."""
    if is_public(request.scope, request.app.state.settings):
        return
    identity: Identity = request.state.identity
    role = needed(request.method, request.scope["route"].name)
    if not allows(identity.role, role):
        raise ForbiddenError(f"this needs the role {role}; {identity.user_name} has come with that of {identity.role}")
    named = {kind: value for kind, value in request.path_params.items() if kind in membership_check.PROJECT_OF}
    if named and not membership_check.sees_all_projects(identity):  # else nothing is asked that the event loop would have to wait for
        await run_in_threadpool(_check, request.app.state.database, identity, named, lesser(role, "editor"))


def _check(database: Database, identity: Identity, named: Mapping[str, Any], needed: Role) -> None:
    with database.read() as session:
        membership_check.check_membership(session, identity, named, needed)


def _is_local(scope: Scope) -> bool:
    """Whether it comes from this machine, and not through a proxy, whatever that says for whom it asks."""
    client = scope.get("client")
    return client is not None and client[0] in LOOPBACK and FORWARDING.isdisjoint(Headers(scope=scope).keys())
