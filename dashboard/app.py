"""Entry point of the dashboard: the pages and what they share."""

import gc
from pathlib import Path

import streamlit as st

from dashboard import page_files
from dashboard.auth.api_client import client
from dashboard.views.help import tour
from dashboard.views.new.draft_store import forget_submitted_draft
from dashboard.views.runs.bulk_actions import carry_out
from dashboard.widgets.api_errors import answered
from dashboard.widgets.page_address import drop_foreign
from dashboard.widgets.page_switch import leave

ASSETS = Path(__file__).with_name("assets")
FILES = {"run": page_files.RUN, "compare": page_files.COMPARE, "": page_files.RUNS}
"""Pages that the tour leads to, and those with buttons that lead to another page, by their address."""
ABOUT = "Longtail trains reasoning models with adaptive speculative rollouts."  # with an entry of ours the menu offers the theme too


@st.cache_resource(show_spinner=False)
def keep(page: str) -> None:  # noqa: ARG001
    """Once for each page: what it has loaded stays, and Python, which looks for garbage now and then, need not look through it: that
    takes up to a quarter of a second, in which no other page is answered. Streamlit would do so after every run of a script, which
    its postScriptGC keeps it from: with fifty open pages that took two thirds of the dashboard's time."""
    gc.collect()
    gc.freeze()


st.set_page_config(page_title="Longtail", page_icon=str(ASSETS / "icon.svg"), layout="wide", menu_items={"About": ABOUT})
st.html(ASSETS / "contrast.css")
st.html(ASSETS / "narrow.css")
st.logo(str(ASSETS / "logo.svg"), size="large")
page = st.navigation(  # before the API is asked: while that is away, who opens the address of a page stays there
    [
        st.Page(page_files.RUNS, title="Runs", default=True),
        st.Page(page_files.NEW_RUN, title="New run", url_path="new"),
        st.Page(page_files.PLANNER, title="Planner", url_path="planner"),
        st.Page(page_files.RUN, title="Run", url_path="run", visibility="hidden"),
        st.Page(page_files.COMPARE, title="Compare", url_path="compare"),
        st.Page(page_files.ARTIFACTS, title="Artifacts", url_path="artifacts"),
        st.Page(page_files.WORKERS, title="Workers", url_path="workers"),
        st.Page(page_files.SETTINGS, title="Settings", url_path="settings"),
        st.Page(page_files.HELP, title="Help", url_path="help"),
    ],
    position="top",
)
carry_out()  # whichever page it is by now, and whether or not that can be drawn
leave(FILES.get(page.url_path, ""))
drop_foreign(page.url_path)
with answered():
    st.session_state["me"] = client().me()
    tour.show(FILES.get(page.url_path, ""))
    if page.url_path != "new":
        forget_submitted_draft()
page.run()
keep(page.url_path)
