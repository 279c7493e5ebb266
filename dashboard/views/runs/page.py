"""All runs, live: found, sorted, opened, compared, changed."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import streamlit as st

from dashboard import page_files
from dashboard.auth.api_client import all_projects, client
from dashboard.data.glances import glances
from dashboard.serving.preloaded_files import CHARTS, modules
from dashboard.text.escaping import escaped
from dashboard.views.runs.bulk_actions import action_bar, carry_out, confirmation_and_outcome
from dashboard.views.runs.filters import run_filters
from dashboard.views.runs.group_table import group_table
from dashboard.views.runs.grouped_runs import MOST, grouped_runs
from dashboard.views.runs.own_columns import choose_columns, own_columns
from dashboard.views.runs.pagination import NumberedPages
from dashboard.views.runs.run_cards import group_cards, run_cards
from dashboard.views.runs.run_table import run_table
from dashboard.views.runs.saved_views import saved_views
from dashboard.views.runs.state_totals import state_totals
from dashboard.widgets.api_errors import answered, show_form_errors
from dashboard.widgets.cards import cards_html
from dashboard.widgets.page_switch import leave
from longtail import ApiError
from longtail.schemas.runs import Run

REFRESH_SECONDS = 3
PAGE = 50
CONDITION = (
    "is no condition. Write a field of the configuration or a metric of the latest step, a sign (`= != < <= > >=`) and a value, such as "
    "`config.algorithm.steps>=50`, `config.model.path=tiny` or `summary.reward_mean>0.5`."
)
GROUP_HELP = "Runs that differ in name and seed only are one row, on whichever page. Runs that repeat a seed count as one, by their mean."
MOST_PAGES, LONGEST_NUMBER = 1000, 9
ASSETS = Path(__file__).parents[2] / "assets"
state = st.session_state


def listed(choice: dict[str, Any], number: int) -> tuple[list[Run], int]:
    """The runs of a page, and the number of pages that are known to be there."""
    asked = json.dumps(choice, sort_keys=True)
    if "pages" not in state or state["pages"].choice != asked:
        state["pages"] = NumberedPages(asked)
    found: tuple[list[Run], int] = state["pages"].read(number, lambda cursor: client().runs(limit=PAGE, cursor=cursor, **choice))
    return found


def wanted_page() -> int:
    asked = str(state.get("page") or st.query_params.get("page", "1"))
    return min(max(int(asked), 1), MOST_PAGES) if asked.isdecimal() and len(asked) <= LONGEST_NUMBER else 1


@cache
def script() -> str:
    """What the browser does on this page by itself."""
    parts = [(ASSETS / "open_by_enter.js").read_text(encoding="utf-8")]
    for module in modules(CHARTS)[:1]:
        parts.append(Template((ASSETS / "read_charts_ahead.js").read_text(encoding="utf-8")).substitute(module=module))
    return "".join(parts)


@st.fragment(run_every=REFRESH_SECONDS)
def page(projects: Mapping[str, str]) -> None:
    """``projects``: ids by name."""
    carry_out()
    leave(page_files.RUNS)
    choice = run_filters(state.get("seen", ()), projects)
    bar = st.container(horizontal=True, gap="small", vertical_alignment="center")
    with bar:
        counts = st.container()
        grouped = st.toggle("Group seeds", key="grouped", bind="query-params", help=GROUP_HELP)
    try:
        groups = grouped_runs(choice) if grouped else None
        runs, pages = (groups.runs, 1) if groups else listed(choice, wanted_page())
        known = {} if "deleted" in choice else glances(runs)
    except ApiError as error:
        show_form_errors(
            error, {f"where.{place}": f"**{escaped(text)}** {CONDITION}" for place, text in enumerate(choice.get("where", ()))}
        )
        return
    state["seen"] = runs
    with counts:
        state_totals(choice, runs)
    with bar:
        if not groups:
            choose_columns(runs[:PAGE])
        saved_views()
    head, told = st.container(gap="small", key="run-actions"), st.container(gap="small")
    selected, names = [], {project_id: name for name, project_id in projects.items()}
    if runs:
        st.toggle("As a table", key="as-table", help="To select runs, and to see all their figures.")
        with st.container(key="group-grid" if groups else "run-grid"):
            selected = group_table(groups.groups, known) if groups else run_table(runs, known, names, datetime.now(UTC), own_columns())
        with st.container(key="run-cards"):
            cards = group_cards(groups.groups, known) if groups else run_cards(runs, known, names, datetime.now(UTC))
            st.html(cards_html("Runs", cards))
        if groups and groups.has_more:
            st.caption(f"These are the first {MOST:,} runs in this order. Filter, to group others.")
        st.html(f"<script>{script()}</script>", unsafe_allow_javascript=True)
    elif len(choice) > 1:
        st.info("No run matches. Clear the search or choose otherwise.")
    else:
        st.info("No run yet. The first one takes a few minutes with the built-in model and task.")
        st.page_link(page_files.NEW_RUN, label="**Start a run**")
    with head:
        action_bar(selected, "deleted" in choice)
    with told:
        confirmation_and_outcome()
    if pages > 1:
        with st.container(horizontal_alignment="center"):
            st.pagination(pages, key="page", bind="query-params")


st.header("Runs", anchor=False)
with answered():
    page({project.name: project.id for project in all_projects()})
