"""What a run leaves to take away."""

import streamlit as st

from dashboard.feed import Feed
from dashboard.panels.files import files
from dashboard.tabs.tab import Needs, Tab


def show(feed: Feed) -> None:
    if not feed.artifacts:
        st.caption("What the run saves, such as its drafter and its policy, can be downloaded here.")
    files(feed.artifacts)


TAB = Tab("Files", show, Needs(("artifacts",)))
