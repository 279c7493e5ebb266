"""A click on a grid in the moment when a new run enters: it counts, and for the run that was clicked."""

import json

import pytest
from example_runs import run
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from longtail.schemas.runs import Run

OLD = [run(name.ljust(16, "0"), {"name": name, "algorithm": {"steps": place}}) for place, name in enumerate("abc")]
NEW = run("n".ljust(16, "0"), {"name": "n", "algorithm": {"steps": 9}})


def table() -> None:
    import streamlit as st
    from example_runs import NOW

    from dashboard.views.runs.run_table import run_table

    st.session_state["told"] = [one.id for one in run_table(st.session_state["runs"], {}, {}, NOW)]


def groups() -> None:
    import streamlit as st

    from dashboard.analysis.run_groups import run_groups
    from dashboard.views.runs.group_table import group_table

    st.session_state["told"] = [one.id for one in group_table(run_groups(st.session_state["runs"]), {})]


def click(app: AppTest, grid: str, row: int) -> None:
    """As a browser says it that still shows this grid."""
    states = app._tree.get_widget_states()
    states.widgets.append(WidgetState(id=grid, string_value=json.dumps({"selection": {"rows": [row], "columns": []}})))
    app._run(states)
    assert not app.exception


def shown(runs: list[Run], page: AppTest) -> str:
    page.session_state["runs"] = runs
    return str(page.run().dataframe[0].proto.id)


@pytest.mark.parametrize("page", [table, groups])
@pytest.mark.parametrize("drawn", [False, True], ids=["the click finds the new run", "the new run was drawn before the click"])
def test_a_click_is_for_the_run_that_was_clicked(page: object, drawn: bool) -> None:
    app = AppTest.from_function(page, default_timeout=300)  # type: ignore[arg-type]
    grid = shown(OLD, app)
    if drawn:
        assert shown([NEW, *OLD], app) != grid
    app.session_state["runs"] = [NEW, *OLD]
    click(app, grid, 1)
    assert app.session_state["told"] == [OLD[1].id]
    app.run()
    assert app.session_state["told"] == [OLD[1].id], "and stays so"
    app.session_state["runs"] = OLD
    assert app.run().session_state["told"] == [OLD[1].id]
