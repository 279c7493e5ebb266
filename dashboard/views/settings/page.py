"""One's own account and projects; for admins users, webhooks, and what was changed."""

import streamlit as st

from dashboard.auth.api_client import client, me
from dashboard.text.escaping import escaped
from dashboard.views.settings import tokens_and_password
from dashboard.views.settings.appearance import appearance
from dashboard.views.settings.audit_log import audit_log
from dashboard.views.settings.projects import projects
from dashboard.views.settings.roles import roles
from dashboard.views.settings.users import users
from dashboard.views.settings.webhooks import webhooks
from dashboard.widgets.api_errors import answered
from dashboard.widgets.tab_row import tab_row


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
        tokens_and_password.tokens()
        tokens_and_password.password()
    else:
        st.info(
            f"You have come with a token for the role {me().role} only. "
            f"Log in with all rights of {escaped(me().user)} to manage the account."
        )
    roles()


EVERYBODYS = {"Account": account, "Projects": projects, "Appearance": appearance}
ADMINS = {"Users": users, "Webhooks": webhooks, "Audit": audit_log}
with answered():
    heading()
    drawn = EVERYBODYS | (ADMINS if me().may_administer else {})
    chosen, place = tab_row(list(drawn))
    with place:
        drawn[chosen]()
