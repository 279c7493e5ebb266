"""Drafters, policies, checkpoints and other files of all runs. With an id in the address: one of them."""

import streamlit as st

from dashboard.views.artifacts.artifact_details import artifact_card
from dashboard.views.artifacts.artifact_list import artifact_list
from dashboard.widgets.api_errors import answered

with answered():
    if artifact_id := st.query_params.get("id"):
        artifact_card(artifact_id)
    else:
        st.header("Drafters and artifacts", anchor=False)
        artifact_list()
