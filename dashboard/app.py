"""Entry point of the dashboard: the pages and what they share."""

from pathlib import Path

import streamlit as st

from dashboard.connection import answered, client

ASSETS = Path(__file__).with_name("assets")

st.set_page_config(page_title="Longtail", page_icon=str(ASSETS / "icon.svg"), layout="wide")
st.logo(str(ASSETS / "logo.svg"), size="large")
with answered():
    st.session_state["me"] = client().me()
page = st.navigation(
    [
        st.Page("views/runs.py", title="Runs", icon="📋", url_path="runs", default=True),
        st.Page("views/new.py", title="New run", icon="🚀", url_path="new"),
        st.Page("views/run.py", title="Run", icon="📈", url_path="run", visibility="hidden"),
        st.Page("views/compare.py", title="Compare", icon="⚖️", url_path="compare"),
        st.Page("views/settings.py", title="Settings", icon="⚙️", url_path="settings"),
    ],
    position="top",
)
page.run()
