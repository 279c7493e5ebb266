"""One's own account and projects; for admins users, webhooks, and what was changed."""

from collections.abc import Callable, Mapping

import streamlit as st

from dashboard.connection import answered, client, me
from dashboard.formats import plain
from dashboard.panels import own_account, users
from dashboard.panels.projects import projects
from dashboard.panels.roles import appearance, roles
from dashboard.panels.webhooks import webhooks

Draw = Callable[[], None]


def heading() -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header("Settings", anchor=False, width="content")
        st.badge(me().role)
        st.text(me().user)
        st.space("stretch")
        if st.button("Log out"):
            client().log_out()
            st.rerun()


def account() -> None:
    if me().role == me().user_role:
        own_account.tokens()
        own_account.password()
    else:
        st.info(
            f"You have come with a token for the role {me().role} only. Log in with all rights of {plain(me().user)} to manage the account."
        )
    roles()


def tabs() -> Mapping[str, Draw]:
    """By title; those of an admin only for admins."""
    everybody: dict[str, Draw] = {"Account": account, "Projects": projects, "Appearance": appearance}
    admins: dict[str, Draw] = {"Users": users.users, "Webhooks": webhooks, "Audit": users.audit}
    return everybody | (admins if me().may_administer else {})


with answered():
    heading()
    found = tabs()
    for tab, draw in zip(st.tabs(list(found), key="tab", bind="query-params"), found.values(), strict=True):
        if tab.open:
            with tab:
                draw()
