"""The client's methods about users, tokens and sessions."""

from collections.abc import Sequence
from typing import Any

from longtail.schemas.identity import (
    AuditPage,
    Me,
    NewSession,
    NewTicket,
    NewToken,
    Role,
    TokenPage,
    User,
    UserPage,
)
from longtail.schemas.preferences import Preferences
from longtail.transport import UNAUTHORIZED, ApiError, Transport


class Identity(Transport):
    def me(self) -> Me:
        return self._get(Me, "/api/v1/me")

    def log_in(self, user: str, password: str, address: str = "") -> NewSession:
        """``address`` is that of the browser for which a dashboard asks."""
        return self._log_in({"user": user, "password": password}, address)

    def log_in_by_token(self, token: str, address: str = "") -> NewSession:
        return self._log_in({"token": token}, address)

    def log_in_by_ticket(self, ticket: str, address: str = "") -> NewSession:
        return self._log_in({"ticket": ticket}, address)

    def log_out(self) -> None:
        """Ends the session (or revokes the token) that this client uses."""
        self._request("DELETE", "/api/v1/sessions/current")

    def ticket(self) -> NewTicket:
        """Logs a browser in as this client, once, within minutes."""
        return self._post(NewTicket, "/api/v1/tickets")

    def set_password(self, new: str, current: str = "") -> None:
        self._request("PUT", "/api/v1/me/password", json={"current": current, "new": new})

    def preferences(self) -> dict[str, list[Any]]:
        """What one keeps for the dashboard, by name."""
        return self._get(Preferences, "/api/v1/preferences").values

    def set_preference(self, name: str, value: Sequence[Any]) -> None:
        self._request("PUT", f"/api/v1/preferences/{name}", json={"value": list(value)})

    def tokens(self, everyone: bool = False, limit: int = 50, cursor: str | None = None) -> TokenPage:
        """Newest first: one's own, or as an admin everyone's."""
        return self._get(TokenPage, "/api/v1/tokens", everyone=everyone or None, limit=limit, cursor=cursor)

    def create_token(
        self, name: str, scope: Role = "editor", days: float | None = 90, user_id: str | None = None, project_id: str | None = None
    ) -> NewToken:
        """The only time that its secret is seen. For another user only by an admin. With a ``project_id`` it opens that project only."""
        path = f"/api/v1/users/{user_id}/tokens" if user_id else "/api/v1/tokens"
        return self._post(NewToken, path, {"name": name, "scope": scope, "days": days, "project_id": project_id})

    def revoke_token(self, token_id: str) -> None:
        self._request("DELETE", f"/api/v1/tokens/{token_id}")

    def users(self, limit: int = 50, cursor: str | None = None) -> UserPage:
        """Newest first."""
        return self._get(UserPage, "/api/v1/users", limit=limit, cursor=cursor)

    def add_user(self, name: str, role: Role = "editor", password: str | None = None) -> User:
        return self._post(User, "/api/v1/users", {"name": name, "role": role, "password": password})

    def change_user(self, user_id: str, **changes: Any) -> User:
        """``role``, ``disabled`` or ``password``."""
        return self._reply(User, self._request("PATCH", f"/api/v1/users/{user_id}", json=changes))

    def audit(self, user: str | None = None, limit: int = 50, cursor: str | None = None) -> AuditPage:
        """Who changed what, newest first."""
        return self._get(AuditPage, "/api/v1/audit", user=user, limit=limit, cursor=cursor)

    def _log_in(self, proof: dict[str, str], address: str) -> NewSession:
        headers = {"X-Forwarded-For": address} if address else {}
        return self._reply(NewSession, self._request("POST", "/api/v1/sessions", json=proof, headers=headers))


def entrance(client: Identity, dashboard_url: str, page: str = "/") -> str:
    """An address that opens ``page`` of the dashboard, logged in as ``client``: once, within minutes."""
    return f"{dashboard_url}/enter?ticket={client.ticket().ticket}&next={page}"


def shown_address(client: Identity, dashboard_url: str | None, page: str = "/") -> str:
    """What to tell the user: an entrance, or the plain address if the client has no token that is good for one."""
    if dashboard_url is None:
        return "off"
    try:
        return entrance(client, dashboard_url, page)
    except ApiError as error:
        if error.status != UNAUTHORIZED:
            raise
        return f"{dashboard_url}{page}"
