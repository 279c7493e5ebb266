"""One's own account; for admins the users and what they did."""

import streamlit as st

from dashboard.connection import answered, client, me
from dashboard.formats import plain
from dashboard.panels import own_account, users


def heading() -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header("Settings", anchor=False, width="content")
        st.badge(me().role)
        st.text(me().user)
        st.space("stretch")
        if st.button("Log out"):
            client().log_out()
            st.rerun()


with answered():
    heading()
    if me().role == me().user_role:
        own_account.tokens()
        own_account.password()
    else:
        st.info(
            f"You have come with a token for the role {me().role} only. Log in with all rights of {plain(me().user)} to manage the account."
        )
    if me().may_administer:
        users.users()
        users.audit()
