"""Who may call what. Deny by default: a route that is not named here needs a token, of an editor if it writes."""

from collections.abc import Mapping
from types import MappingProxyType

from fastapi import Request

from backend.errors import ForbiddenError
from backend.schemas.accounts import Role, allows
from backend.services.tokens import Identity

OPEN = frozenset({("GET", "/healthz"), ("GET", "/readyz"), ("POST", "/api/v1/sessions")})
NEEDED: Mapping[str, Role] = MappingProxyType(
    {
        "validate": "viewer",  # writes nothing
        "log_out": "viewer",
        "create_ticket": "viewer",
        "set_password": "viewer",
        "create_token": "viewer",
        "revoke_token": "viewer",
        "list_users": "admin",
        "add_user": "admin",
        "change_user": "admin",
        "create_user_token": "admin",
        "audit": "admin",
    }
)


def needed(method: str, name: str) -> Role:
    """The least role for the route of this name, which is that of its function."""
    return NEEDED.get(name, "viewer" if method == "GET" else "editor")


async def authorise(request: Request) -> None:
    """Runs before every route. Who asks has been found out by the gate, without which only what is OPEN gets here."""
    if (request.method, request.scope["path"]) in OPEN:
        return
    identity: Identity = request.state.identity
    role = needed(request.method, request.scope["route"].name)
    if not allows(identity.role, role):
        raise ForbiddenError(f"this needs the role {role}; {identity.user_name} has come with that of {identity.role}")
