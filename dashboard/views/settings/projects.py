"""Projects, and who may do what in them."""

from collections.abc import Callable

import streamlit as st

from dashboard.auth.api_client import all_projects, client, me
from dashboard.text.escaping import escaped
from dashboard.widgets.api_errors import explained
from dashboard.widgets.cell_labels import row_headings
from dashboard.widgets.panel import panel
from longtail.schemas.identity import ROLES
from longtail.schemas.projects import DEFAULT_PROJECT, Member, Project

WIDTHS = (3, 1.5, 1.2)
ROWS, HEADINGS = "rows-members", ("Member", "Role", "")
WANTED = {
    "name": "**Name**: 1 to 64 characters, such as long tails",
    "user_name": "**User to let in**: the name of one who has an account here",
}
HELP = "Who has no part in a project does not see its runs. viewer: looks; editor: works with its runs; admin: also chooses its members."


def projects() -> None:
    with panel("Projects", HELP):
        if me().may_write:
            _new()
        found = {project.id: project for project in all_projects(archived=True)}
        if not found:
            st.caption("You have no part in any project.")
            return
        titles = {project.id: project.name + (" (archived)" if project.archived_at else "") for project in found.values()}
        chosen = st.selectbox("Project", list(found), format_func=titles.__getitem__, key="project", width=360)
        _project(found[chosen])


def _new() -> None:
    with st.form("new-project", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input("Name of a new project", max_chars=64, width=280)
        wanted = st.form_submit_button("Create project")
    if wanted:
        with explained(WANTED):
            st.session_state["project"] = client().create_project(name).id


def _project(project: Project) -> None:
    st.caption(f"You are its {project.role}. Made on {project.created_at:%Y-%m-%d}; id `{project.id}`.")
    administers = project.role == "admin"
    if administers:
        _change(project)
    elif project.description:
        st.text(project.description)
    if members := client().members(project.id):
        with st.container(key=ROWS):
            row_headings(ROWS, WIDTHS, HEADINGS)
            for member in members:
                _member(project, member, administers)
    if administers:
        _admit(project)


def _change(project: Project) -> None:
    with st.form(f"project-{project.id}", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input("Name", project.name, max_chars=64, width=280)
        description = st.text_input("Description", project.description, max_chars=2000, width=480)
        archived = st.toggle("Archived", project.archived_at is not None, disabled=project.id == DEFAULT_PROJECT)
        wanted = st.form_submit_button("Save")
    if wanted:
        _do(lambda: client().change_project(project.id, name=name, description=description, archived=archived))


def _member(project: Project, member: Member, administers: bool) -> None:
    name, role, action = st.columns(WIDTHS, vertical_alignment="center")
    name.text(member.user)
    if not administers:
        role.badge(member.role, color="gray")
        return
    key = f"{project.id}-{member.user}"
    chosen = role.selectbox(
        f"Role of {escaped(member.user)}", ROLES, ROLES.index(member.role), key=f"member-{key}-{member.role}", label_visibility="collapsed"
    )
    if action.button("Remove", key=f"expel-{key}"):
        _do(lambda: client().remove_member(project.id, member.user))
    elif chosen != member.role:
        _do(lambda: client().set_member(project.id, member.user, chosen))


def _admit(project: Project) -> None:
    with st.form(f"admit-{project.id}", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        user = st.text_input("User to let in", max_chars=64, width=280)
        role = st.selectbox("As", ROLES, 1, width=160)
        wanted = st.form_submit_button("Add member")
    if wanted and user:
        _do(lambda: client().set_member(project.id, user, role))
    elif wanted:
        st.error(WANTED["user_name"], icon="⚠️")


def _do(request: Callable[[], object]) -> None:
    with explained(WANTED):
        request()
        st.rerun()
