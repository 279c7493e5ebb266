"""For admins: who may come in, and in which role."""

import streamlit as st

from dashboard.auth.api_client import client
from dashboard.text.escaping import escaped
from dashboard.widgets.api_errors import explained
from dashboard.widgets.cell_labels import row_headings
from dashboard.widgets.panel import panel
from longtail import ApiError
from longtail.schemas.identity import ROLES, User
from longtail.transport import MOST

WIDTHS = (3, 1.5, 1.5, 2, 1.2)
ROWS, HEADINGS = "rows-users", ("Name", "Role", "State", "Since", "")
WANTED = {"name": "**Name**: up to 64 of a-z, 0-9, dot, underscore and hyphen, the first a letter or a digit, such as ada.l"}


def users() -> None:
    with panel("Users", "viewer: looks; editor: also starts and stops runs; admin: also manages users."):
        new_user()
        with st.container(key=ROWS):
            row_headings(ROWS, WIDTHS, HEADINGS)
            for user in client().every(client().users, limit=MOST):
                row(user)


def new_user() -> None:
    with st.form("new-user", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input("Name", max_chars=64, placeholder="a-z, 0-9, . - _", width=280)
        role = st.selectbox("Role", ROLES, index=1, width=160)
        wanted = st.form_submit_button("Add user")
    if wanted:
        with explained(WANTED):
            user = client().add_user(name, role)
            made = client().create_token("first login", user.role, user_id=user.id)
            st.success(f"{escaped(made.user_name)} logs in with this token, and may then set a password. It is not shown again.")
            st.code(made.token, language=None)


def row(user: User) -> None:
    """What was drawn of a user whom another admin has changed since is not heard any more."""
    name, role, state, created, action = st.columns(WIDTHS, vertical_alignment="center")
    name.text(user.name)
    chosen = role.selectbox("Role", ROLES, ROLES.index(user.role), key=f"role-{user.id}-{user.role}", label_visibility="collapsed")
    state.badge("disabled" if user.disabled else "active", color="gray" if user.disabled else "green")
    created.caption(f"{user.created_at:%Y-%m-%d}")
    change = "Enable" if user.disabled else "Disable"
    clicked = action.button(change, key=f"{change.lower()}-{user.id}")
    try:
        if clicked:
            client().change_user(user.id, disabled=not user.disabled)
        elif chosen != user.role:
            client().change_user(user.id, role=chosen)
        else:
            return
    except ApiError as error:
        st.error(escaped(str(error)))
    else:
        st.rerun()
