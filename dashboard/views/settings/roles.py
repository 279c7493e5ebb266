"""What each role may do."""

from dashboard.auth.api_client import me
from dashboard.widgets.panel import panel
from dashboard.widgets.table import table
from longtail.schemas.identity import ROLES, Role, allows

RIGHTS: dict[str, Role] = {
    "See runs, comparisons, artifacts, workers and the queue of one's projects": "viewer",
    "Make and revoke tokens of one's own, set one's password": "viewer",
    "Start, change, stop and delete runs; upload files; make projects": "editor",
    "Manage users, webhooks and every project; read the audit log": "admin",
}


def roles() -> None:
    with panel("What you may do", "A project may grant less: viewers of a project only look at its runs."):
        table([_row(right, needed) for right, needed in RIGHTS.items()])


def _row(right: str, needed: Role) -> dict[str, str]:
    mine = f"{me().role} (you)"
    return {"Right": right} | {mine if role == me().role else role: "✓" if allows(role, needed) else "–" for role in ROLES}
