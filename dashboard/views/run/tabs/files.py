"""What a run leaves to take away."""

import streamlit as st

from dashboard.data.run_data import DataQuery, RunData
from dashboard.views.run.artifact_downloads import artifact_downloads
from dashboard.views.run.tabs.tab import Tab


def show(data: RunData) -> None:
    if not data.artifacts:
        st.caption("What the run saves, such as its drafter and its policy, can be downloaded here.")
    artifact_downloads(data.artifacts)


TAB = Tab("Files", show, DataQuery(("artifacts",)))
