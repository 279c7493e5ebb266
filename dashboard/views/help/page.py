"""What the words mean, how to read each tab, and how to get the same without the dashboard."""

import streamlit as st

from dashboard import page_files
from dashboard.auth.api_client import client
from dashboard.text.guides import EVERY_ROUTE, GLOSSARY, GUIDES
from dashboard.views.help import tour
from dashboard.widgets.page_switch import switch_page
from dashboard.widgets.panel import panel

st.header("Help", anchor=False)
with st.container(horizontal=True, vertical_alignment="center"):
    st.markdown(
        "Longtail trains reasoning models by reinforcement learning, and makes the long tail of each rollout shorter.", width="stretch"
    )
    if tour.is_left():
        st.button("Go on with the tour", on_click=tour.go_on)
    if st.button("Take the tour", type="primary", help="What there is to see, on the pages themselves"):
        tour.begin()
        switch_page(page_files.RUNS)
word = st.text_input("Find a word", type="search", key="word", placeholder="accept length", live=True, width=320).lower()
with panel("Words"):
    found = {term: meaning for term, meaning in GLOSSARY.items() if word in f"{term} {meaning}".lower()}
    for term, meaning in found.items():
        st.markdown(f"**{term}**  \n{meaning}")
    if not found:
        st.caption("No word is like that.")
with panel("How to read a run"):
    for name, guide in GUIDES.items():
        if word in f"{name} {guide.question} {guide.read}".lower():
            with st.expander(f"{name}: {guide.question}"):
                st.markdown(guide.read)
                st.code(f"{guide.rest.format(run='RUN')}\n{guide.command.format(run='RUN')}", language="bash", wrap_lines=True)
with panel("Without the dashboard"):
    st.caption(f"{EVERY_ROUTE} describes the REST API, with every route and its parameters. RUN is a run's id.")
    asked = f"curl -H 'Authorization: Bearer TOKEN' {client().base_url}"
    lines = (f"{asked}/api/v1/runs", f"{asked}{EVERY_ROUTE}", "longtail runs", "longtail watch RUN")
    st.code("\n".join(lines), language="bash", wrap_lines=True)
