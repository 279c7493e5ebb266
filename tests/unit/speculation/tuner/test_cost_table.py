"""The cost table against NumPy's interpolation and against sums worked out by hand."""

import json
from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.cost_table import CATCH_UP, SCHEMA, CostTable, Grid, assumed_seconds

BATCHES, WIDTHS, LENGTHS = (1, 4, 16), (1, 2, 8), (0, 100)
VALUES = np.random.default_rng(0).uniform(1, 2, (3, 3, 2)).cumsum(0).cumsum(1).cumsum(2)
GRID = Grid(BATCHES, WIDTHS, LENGTHS, VALUES)  # type: ignore[arg-type]  # an array will do

# target: 10 + batch * width; draft: 1 + width, at any length
LINEAR = CostTable(
    Grid((1, 64), (1, 64), (0,), [[[10 + batch * width] for width in (1, 64)] for batch in (1, 64)]),
    Grid((1,), (1, 8), (0,), [[[2.0], [9.0]]]),
)


def interpolated(batch: float, width: float, length: float) -> float:
    """One axis after the other, by NumPy."""
    by_length = np.apply_along_axis(lambda row: np.interp(length, LENGTHS, row), 2, VALUES)
    by_width = np.apply_along_axis(lambda row: np.interp(width, WIDTHS, row), 1, by_length)
    return float(np.interp(batch, BATCHES, by_width))


def test_measured_points_come_back() -> None:
    for (b, batch), (w, width), (n, length) in product(enumerate(BATCHES), enumerate(WIDTHS), enumerate(LENGTHS)):
        assert GRID(batch, width, length) == pytest.approx(VALUES[b, w, n])


@given(st.floats(0, 16), st.floats(0, 8), st.floats(0, 100))
def test_it_is_linear_between_the_points_and_constant_below_them(batch: float, width: float, length: float) -> None:
    assert GRID(batch, width, length) == pytest.approx(interpolated(batch, width, length))


@given(st.floats(0, 1000), st.floats(0, 100), st.floats(0, 100_000), st.sampled_from([0, 1, 2]))
def test_more_never_costs_less_where_no_measurement_says_so(batch: float, width: float, length: float, axis: int) -> None:
    point = np.array([batch, width, length])
    more = point + np.eye(3)[axis] * 7
    assert GRID(*more) >= GRID(*point) * (1 - 1e-9)


def test_it_goes_on_with_the_last_slope() -> None:
    grid = Grid((1, 2, 4), (1,), (0,), [[[1.0]], [[2.0]], [[3.0]]])
    assert [grid(batch, 9, 9) for batch in (0.5, 1, 3, 4, 6, 10)] == [1.0, 1.0, 2.5, 3.0, 4.0, 6.0]


def test_a_falling_slope_never_leads_below_the_least_measurement() -> None:
    grid = Grid((1, 2), (1,), (0,), [[[2.0]], [[1.5]]])
    assert grid(1000, 1, 0) == 1.5


@pytest.mark.parametrize(
    ("axes", "seconds"),
    [
        (((1, 1), (1,), (0,)), [[[1.0]], [[1.0]]]),
        (((2, 1), (1,), (0,)), [[[1.0]], [[1.0]]]),
        (((1, 2), (1,), (0,)), [[[1.0]]]),
        (((1,), (1,), (0,)), [[[-1.0]]]),
        (((1,), (1,), (0,)), [[[float("nan")]]]),
    ],
)
def test_a_faulty_grid_is_refused(axes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], seconds: list[list[list[float]]]) -> None:
    with pytest.raises(ValueError, match="grid of costs"):
        Grid(*axes, seconds)


@pytest.mark.parametrize(
    ("strategy", "seconds"),
    [
        (OFF, 10 + 3 * 1),
        (Strategy("ngram", 6, 1, 6), 10 + 3 * 7),
        (Strategy("eagle", 1, 1, 1), 10 + 3 * 2 + (1 + CATCH_UP)),
        (Strategy("eagle", 4, 1, 4), 10 + 3 * 5 + (1 + CATCH_UP) + 3 * 2),
        (Strategy("eagle", 6, 1, 4), 10 + 3 * 5 + (1 + CATCH_UP) + 3 * 2),  # a chain drafts no more than is verified
        (Strategy("eagle", 5, 4, 16), 10 + 3 * 17 + (1 + CATCH_UP) + 4 * 5),
    ],
)
def test_a_step_is_one_target_pass_and_the_draft_passes(strategy: Strategy, seconds: float) -> None:
    assert LINEAR.seconds(strategy, Context(3, length=500.0)) == pytest.approx(seconds)


def test_a_saved_table_is_the_same(tmp_path: Path) -> None:
    table = CostTable(GRID, LINEAR.draft)
    table.save(tmp_path / "costs.json")
    assert CostTable.load(tmp_path / "costs.json") == table
    assert [path.name for path in tmp_path.iterdir()] == ["costs.json"]


def test_a_table_of_another_schema_counts_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    assert CostTable.load(path) is None
    for content in (json.dumps(asdict(LINEAR) | {"schema": 0}), "{}", "[]", "null", json.dumps({"schema": SCHEMA}), "cut o"):
        path.write_text(content)
        assert CostTable.load(path) is None
    LINEAR.save(path)
    assert CostTable.load(path) == LINEAR


def test_the_guess_without_a_table_rises_with_what_is_drafted_verified_and_run() -> None:
    chains = [Strategy("eagle", depth, 1, depth) for depth in (1, 3, 6)]
    for context in (Context(1), Context(64)):
        costs = [assumed_seconds(arm, context) for arm in (OFF, Strategy("ngram", 1, 1, 1), *chains, Strategy("eagle", 6, 4, 16))]
        assert costs == sorted(costs)
        assert len(set(costs)) == len(costs)
    assert assumed_seconds(chains[2], Context(64)) / assumed_seconds(OFF, Context(64)) > assumed_seconds(chains[2], Context(1))
