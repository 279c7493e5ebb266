"""What a submission says beside the configuration: tags, notes, project, and how it queues."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard.text.escaping import escaped
from dashboard.views.new.config_form import ErrorSlots
from longtail.schemas.runs import Run

LONGEST_NOTES = 20_000
EXPECTED: Mapping[str, str] = {
    "tags": "at most 32 tags, of up to 64 characters each",
    "needs": "up to 64 of a-z, 0-9, dot, underscore, colon and hyphen, such as gpu:h200",
}
"""What is to be written, where the API knows a pattern."""


def blank_options(origin: str, tags: str) -> dict[str, str | int | bool]:
    """What nobody has said anything in, by the key of the widget; ``tags`` are those of ``origin``, if that is a run."""
    return {"tags": "", f"tags-{origin}": tags, "notes": "", "project-of-run": "", "priority": 0, "needs": "", "twin": False}


def submission_options(projects: Mapping[str, str], parent: Run | None) -> tuple[dict[str, Any], ErrorSlots]:
    """As the API's client takes them, and the places for what is wrong with them. ``projects``: ids by name; a clone of ``parent`` stays
    in its own."""
    slots: ErrorSlots = {}
    keep: dict[str, Any] = {"persist_state": "session"}  # also while another page is looked at

    def noted(name: str, given: Any) -> Any:
        slots[name] = st.empty()
        return given

    key, tags = (f"tags-{parent.id}", parent.tags) if parent else ("tags", ())
    text = noted("tags", st.text_input("Tags", ", ".join(tags), placeholder="comma, separated", key=key, **keep))
    reminder = "what to remember about it"
    notes = noted("notes", st.text_area("Notes", key="notes", height=68, max_chars=LONGEST_NOTES, placeholder=reminder, **keep))
    found: dict[str, Any] = {"tags": [tag.strip() for tag in text.split(",") if tag.strip()], "notes": notes}
    if parent is None and len(projects) > 1:
        if st.session_state.get("project-of-run") not in projects:
            st.session_state["project-of-run"] = None
        project = noted("project_id", st.selectbox("Project", list(projects), None, key="project-of-run", placeholder="default", **keep))
        found["project_id"] = projects.get(project or "")
    left, right = st.columns(2)
    with left:
        priority = st.number_input("Priority", value=0, step=1, key="priority", help="Higher goes first.", **keep)
        found["priority"] = noted("priority", priority)
    with right:
        help = escaped("Label of the workers that may carry it, such as gpu:h200; empty: any")
        found["needs"] = noted("needs", st.text_input("Worker label", key="needs", help=help, **keep)) or None
    return found, slots
