"""One's tokens and password."""

from datetime import UTC, datetime

import streamlit as st

from dashboard.auth.api_client import all_projects, client, me
from dashboard.text.escaping import escaped
from dashboard.text.formats import ago
from dashboard.widgets.api_errors import explained
from dashboard.widgets.cell_labels import row_headings
from dashboard.widgets.panel import panel
from longtail import ApiError
from longtail.schemas.identity import ROLES, Token, allows
from longtail.transport import MOST

WIDTHS = (2.8, 1, 1.2, 2, 2, 1.4)
ROWS, HEADINGS = "rows-tokens", ("What it is for", "Kind", "Acts as", "Last used", "Expires", "")
SHORTEST_PASSWORD = 12
ALL = "all my projects"
WANTED = {
    "name": "**What it is for**: 1 to 100 characters, such as laptop",
    "new": f"**New password**: {SHORTEST_PASSWORD} to 256 characters",
}


def tokens() -> None:
    with panel("Tokens and sessions", "A token lets a program or another machine in: LONGTAIL_TOKEN, or longtail login."):
        new_token()
        with st.container(key=ROWS):
            row_headings(ROWS, WIDTHS, HEADINGS)
            for token in client().every(client().tokens, limit=MOST):
                if not token.is_over:
                    row(token)


def new_token() -> None:
    """The form, and after it, once, the secret."""
    with st.form("new-token", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input("What it is for", max_chars=100, width=280)
        scope = st.selectbox("It may act as", [role for role in ROLES if allows(me().user_role, role)], width=160)
        days = st.number_input("Days until it expires", 1, 3650, 90, width=160)
        projects = {project.id: project.name for project in all_projects()}
        project = st.selectbox("It opens", [None, *projects], format_func=lambda each: projects.get(each, ALL), width=200)
        wanted = st.form_submit_button("Create token")
    if wanted:
        with explained(WANTED):
            made = client().create_token(name, scope, days, project_id=project)
            st.success("Copy the token now: it is not shown again.")
            st.code(made.token, language=None)


def row(token: Token) -> None:
    now = datetime.now(UTC)
    name, kind, scope, used, expires, end = st.columns(WIDTHS, vertical_alignment="center")
    name.text(token.name)
    kind.text("this one" if token.id == me().token_id else token.kind)
    scope.badge(token.scope, color="gray")
    used.caption(ago(token.last_used_at, now) if token.last_used_at else "never")
    expires.caption(f"{token.expires_at:%Y-%m-%d}" if token.expires_at else "never")
    if end.button("Revoke", key=f"revoke-{token.id}", disabled=token.id == me().token_id):
        try:
            client().revoke_token(token.id)
        except ApiError as error:
            st.error(escaped(str(error)))
        else:
            st.rerun()


def password() -> None:
    with panel("Password", "To log in without a token. It ends your other sessions."):
        with st.form("password", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
            current = st.text_input("Current password", type="password", width=280) if me().has_password else ""
            new = st.text_input(f"New password, {SHORTEST_PASSWORD} characters or more", type="password", width=280)
            wanted = st.form_submit_button("Set password")
        if wanted:
            with explained(WANTED):
                client().set_password(new, current)
                st.success("The password is set.")
