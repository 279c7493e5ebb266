"""Runs by configuration: what is selected stays so, whatever comes and goes beside it."""

from example_runs import run
from streamlit.testing.v1 import AppTest

from longtail.schemas.runs import Run

CONFIGURATIONS = 15


def table() -> None:
    """As the page draws it, of the runs in its state."""
    import streamlit as st

    from dashboard.analysis.run_groups import run_groups
    from dashboard.views.runs.group_table import group_table

    st.session_state["told"] = [one.id for one in group_table(run_groups(st.session_state["runs"]), {})]


def seeds(configuration: int) -> list[Run]:
    config = {"name": f"c{configuration}", "algorithm": {"learning_rate": configuration / 1000}}
    return [run(f"{configuration:02}{seed}".ljust(16, "0"), config | {"seed": seed}) for seed in range(2)]


def runs_of(configurations: list[list[Run]]) -> list[Run]:
    return [one for seeds in configurations for one in seeds]


def page(shown: list[Run], selected: list[Run]) -> AppTest:
    app = AppTest.from_function(table, default_timeout=300)
    app.session_state["runs"], app.session_state["selected"] = shown, [one.id for one in selected]
    return app.run()


def test_the_selection_is_of_runs_and_not_of_rows() -> None:
    shown = [seeds(number) for number in range(CONFIGURATIONS)]
    app = page(runs_of(shown), shown[13])
    assert app.dataframe[0].value["Reward"].isna().all(), "nobody measured it: a dash stands there"
    assert app.session_state["told"] == [one.id for one in shown[13]]
    app.session_state["runs"] = runs_of(shown[:12] + shown[13:])
    app.run()
    assert app.session_state["told"] == [one.id for one in shown[13]], "the row above it is gone"
    app.session_state["runs"] = runs_of(shown[:12] + shown[14:])
    app.run()
    assert app.session_state["told"] == [], "it is gone itself"
    assert not app.exception


def test_the_last_row_may_go() -> None:
    shown = [seeds(number) for number in range(CONFIGURATIONS)]
    app = page(runs_of(shown), shown[-1])
    assert app.session_state["told"] == [one.id for one in shown[-1]]
    app.session_state["runs"] = runs_of(shown[:-1])
    app.run()
    assert not app.exception
    assert app.session_state["told"] == []


def test_a_run_that_joins_a_group_is_not_selected_with_it() -> None:
    """Else a deletion would be of a run that nobody has clicked."""
    first, second = seeds(1)
    app = page([first], [first])
    assert app.session_state["told"] == [first.id]
    app.session_state["runs"] = [second, first]
    app.run()
    assert app.session_state["told"] == []
    assert not app.exception
