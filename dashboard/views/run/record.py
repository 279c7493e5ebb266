"""A run as a record: whose it is, what was written about it, how to do it again, and its timeline to take away."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from dashboard.analysis.chrome_trace import chrome_trace
from dashboard.analysis.reproduction import commands, config_yaml, memory_command, versions
from dashboard.analysis.step_phases import PHASES
from dashboard.auth.api_client import all_projects, client, me
from dashboard.data.offline_cache import fetch_or_cached
from dashboard.text.escaping import escaped
from dashboard.text.formats import MISSING
from dashboard.views.run.record_form import record_form
from dashboard.widgets.popover import popover
from longtail import Longtail
from longtail.schemas.projects import Project
from longtail.schemas.runs import Run

TRACED_STEPS = 500


def record(run: Run) -> None:
    """A row below the name: facts on the left, what can be done with them on the right; and the notes."""
    _row(run)
    if run.notes:
        with st.expander("Notes", expanded=len(run.notes) < 400):
            st.text(run.notes)


@st.fragment
def _row(run: Run) -> None:
    projects = {project.id: project.name for project in _projects()}
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="record"):
        st.caption(f"{escaped(projects.get(run.project_id, 'another project'))} · {escaped(run.owner or 'nobody')}", width="content")
        if me().may_write:
            help = "Name, notes, tags, project and owner"
            with st.popover("Edit", key=f"edit-{run.id}", help=help, on_change="rerun") as place:
                record_form(run, projects, bool(place.open))
        if run.kind == "engine":
            popover("Reproduce", f"reproduce-{run.id}", partial(_reproduce, run))
            popover("Memory plan", f"memory-{run.id}", partial(_memory_plan, run))
            if run.step or (run.steps and not run.finished):
                name = f"{run.id}-trace.json"
                help = f"The timeline of at most the last {TRACED_STEPS} steps, for ui.perfetto.dev"
                make = partial(trace, client(), run)
                st.download_button("Perfetto trace", make, name, "application/json", on_click="ignore", help=help, key=f"trace-{run.id}")


def trace(api: Longtail, run: Run) -> str:
    """Of the steps that are the last by now: ``run`` is as it was when its page was opened."""
    run = api.run(run.id)
    since = max(run.step - TRACED_STEPS - 1, -1)
    metrics = api.metrics(run.id, [f"phase/{name}" for name in PHASES], since).series
    return chrome_trace(api.spans(run.id, since), api.decoding(run.id, since), metrics)


def _projects() -> Sequence[Project]:
    return fetch_or_cached("projects", None, all_projects) or ()


def _memory_plan(run: Run) -> None:
    st.caption("What takes the memory of each GPU in a run like this one, by arithmetic. In a shell:")
    st.code(memory_command(run.config), language="bash", wrap_lines=True, width=520)


def _reproduce(run: Run) -> None:
    found = fetch_or_cached("attempts", (run.id, run.attempt), lambda: client().attempts(run.id)) or ()
    latest = found[-1] if found else None
    st.download_button("Configuration (YAML)", config_yaml(run), f"{run.id}.yaml", "application/yaml", on_click="ignore")
    st.caption("Complete, with all defaults and the seed. Then, in a checkout of Longtail:")
    st.code(commands(run, latest), language="bash", wrap_lines=True, width=560)
    if known := versions(latest):
        st.caption(f"Attempt {latest.number if latest else MISSING} ran in:")
        st.table({"": [name for name, _ in known], "version": [escaped(text) for _, text in known]}, border="horizontal", hide_index=True)
    else:
        st.caption("What it ran in was not recorded.")
