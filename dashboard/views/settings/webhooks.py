"""For admins: who is told of what happens to runs, and whether the messages arrive."""

from collections.abc import Mapping
from typing import get_args

import streamlit as st

from dashboard.auth.api_client import all_projects, client
from dashboard.text.escaping import escaped
from dashboard.text.formats import MISSING
from dashboard.widgets.api_errors import answered, explained
from dashboard.widgets.panel import panel
from dashboard.widgets.table import table
from longtail.schemas.webhooks import ENDINGS, Delivery, Event, Webhook
from longtail.transport import MOST

LATEST = 20
WANTED = {
    "url": "**Address**: https:// and a host, up to 500 characters, such as https://example.org/longtail",
    "events": "**Events**: choose one or more",
}
REFRESH_SECONDS = 2


def webhooks() -> None:
    with panel("Webhooks", "A message to an address for every event of these kinds, signed as the Standard Webhooks specification says."):
        projects = {project.id: project.name for project in all_projects()}
        _new(projects)
        for webhook in client().every(client().webhooks, limit=MOST):
            _webhook(webhook, projects.get(webhook.project_id, "one project") if webhook.project_id else "all projects")


def _new(projects: Mapping[str, str]) -> None:
    """The form, and after it, once, the secret. ``projects``: names by id."""
    with st.form("new-webhook", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        url = st.text_input("Address", max_chars=500, placeholder="https://", width=340)
        project = st.selectbox("Project", list(projects), None, format_func=projects.__getitem__, placeholder="all projects", width=180)
        events = st.multiselect("Events", get_args(Event), ENDINGS, width="stretch")
        wanted = st.form_submit_button("Add webhook")
    if wanted:
        with explained(WANTED):
            made = client().add_webhook(url, events, project)
            st.success("Copy the secret now: it checks the signatures, and is not shown again.")
            st.code(made.secret, language=None)


def _webhook(webhook: Webhook, runs_of: str) -> None:
    with st.container(border=True, key=f"webhook-{webhook.id}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text(webhook.url, width="stretch")
            st.badge(escaped(runs_of), color="blue")
            for event in webhook.events:
                st.badge(event.removeprefix("run."), color="gray")
            if st.button("Send a test", key=f"test-{webhook.id}"):
                with explained():
                    client().test_webhook(webhook.id)
                    st.session_state[f"messages-{webhook.id}"] = True
            with st.popover("Remove", key=f"remove-{webhook.id}"):
                st.text("It is told nothing more, at once. Its messages are forgotten.")
                if st.button("Remove the webhook", type="primary", key=f"confirm-{webhook.id}"):
                    with explained():
                        client().remove_webhook(webhook.id)
                        st.rerun()
        messages = st.expander("Messages", key=f"messages-{webhook.id}", on_change="rerun")
        if messages.open:
            with messages:
                st.fragment(_deliveries, run_every=REFRESH_SECONDS)(webhook.id)


def _deliveries(webhook_id: str) -> None:
    with answered():
        items = client().deliveries(webhook_id, LATEST).items
    if not items:
        st.caption("Nothing was sent in the last 30 days.")
    else:
        table([_row(item) for item in items])


def _row(item: Delivery) -> dict[str, str]:
    return {
        "Time": f"{item.created_at:%Y-%m-%d %H:%M:%S} UTC",
        "Event": item.event,
        "Outcome": item.state,
        "Tries": str(item.tries),
        "Status": str(item.status or MISSING),
        "Error": item.error or MISSING,
    }
