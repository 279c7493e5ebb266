"""What each role may do, and how the pages can look."""

import streamlit as st

from backend.schemas.accounts import ROLES, Role, allows
from dashboard.connection import me
from dashboard.panels.frame import panel
from dashboard.panels.tables import table

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
    return {"": right} | {mine if role == me().role else role: "✓" if allows(role, needed) else "–" for role in ROLES}


def appearance() -> None:
    theme = st.context.theme.type or "not known yet"
    with panel("Theme"):
        st.markdown(
            "Light, dark, or as your system: in the menu **⋮** at the top right of every page. "
            f"The browser remembers the choice. Now: **{theme}**."
        )
        st.caption("The charts' colours (Okabe and Ito) can be told apart by the colour-blind, on light and on dark.")
