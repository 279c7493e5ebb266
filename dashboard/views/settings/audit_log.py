"""For admins: who changed what, and from where."""

import streamlit as st

from dashboard.auth.api_client import client
from dashboard.text.formats import MISSING, words
from dashboard.widgets.panel import panel


def audit_log() -> None:
    with panel("What was changed lately"):
        rows = [
            {
                "time (UTC)": f"{entry.time:%Y-%m-%d %H:%M:%S}",
                "user": entry.user_name or MISSING,
                "action": words(entry.action),
                "object": entry.object,
                "from": entry.address,
            }
            for entry in client().audit(limit=50).items
        ]
        st.dataframe(rows, hide_index=True, placeholder=MISSING)
