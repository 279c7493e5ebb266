"""What a run leaves to take away."""

import streamlit as st

from dashboard.data.run_data import DataQuery, RunData
from dashboard.views.run.artifact_downloads import artifact_downloads
from dashboard.views.run.tabs.tab import Tab
from dashboard.widgets.panel import to_come


def show(data: RunData) -> None:
    if not data.artifacts:
        st.caption(to_come("What the run saves, such as its drafter and its policy, will appear here to be downloaded."))
    artifact_downloads(data.artifacts)


TAB = Tab("Files", show, DataQuery(("artifacts",)))
