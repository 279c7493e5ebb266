"""The planner's benchmark: what calibrates, what is held out, and that a prediction is none of what was measured."""

from dataclasses import replace

import numpy as np
import pytest

from engine.bench.planner import strategies
from engine.bench.planner.benchmark import run, scale
from engine.bench.planner.cells import PUBLISHED, Cell, errors
from engine.bench.planner.end_to_end import Unpublished, speedups
from engine.bench.planner.least_squares import fit
from engine.bench.planner.own_runs import CASES
from engine.config import parse
from engine.errors import ConfigError
from engine.planner.calibration import usual


def model() -> strategies.Model:
    """By the constants that the planner has, which come from a fit."""
    return strategies.Model(usual().efficiency, usual().acceptance.model_copy(update={"first": 0.925}), 14_113, 0.967)


def test_half_of_each_table_calibrates() -> None:
    found = strategies.cells(model())
    for table in ("strategies", "depths", "accept lengths", "gpus"):
        own = [cell for cell in found if cell.table == table]
        assert sum(cell.calibrates for cell in own) * 2 == len(own), table
    assert len(PUBLISHED["runs"]) == 8


def test_errors_are_of_what_is_held_out() -> None:
    cells = [Cell("a", "x", 2.0, 3.0, calibrates=True), Cell("a", "y", 2.0, 2.2, calibrates=False)]
    assert errors(cells) == {"a": {"held_out": 1, "mean_abs_error": 0.1, "worst": 0.1}}


def test_the_constants_keep_what_the_fit_found() -> None:
    """The bars of held-out cells, by the constants that plans are made with."""
    found = errors(strategies.cells(model()))
    assert found["strategies"]["mean_abs_error"] < 0.08
    assert found["accept lengths"]["mean_abs_error"] < 0.05


def test_a_prediction_follows_the_model_not_the_measurement() -> None:
    slower = replace(model(), efficiency=usual().efficiency.model_copy(update={"level": 2e-3}))
    before, after = (next(cell.predicted for cell in strategies.cells(each) if cell.table == "depths") for each in (model(), slower))
    assert after < before


def test_more_nodes_gain_more_as_published() -> None:
    unpublished = Unpublished(256, 700.0, 1.2, 0.92)
    found = [speedups(usual(), unpublished, "7B", 8 * nodes, 256)[0] for nodes in (1, 8)]
    assert found[1] > found[0] > 1
    assert found[1] == pytest.approx(1.76, rel=0.2)


def test_least_squares_within_bounds() -> None:
    x = np.linspace(0, 3, 30)
    y = 2 * np.exp(-0.7 * x)
    found = fit(lambda p: (p[0] * np.exp(-p[1] * x) - y).tolist(), (1.0, 0.1), (0.0, 0.0), (5.0, 5.0))
    assert found == pytest.approx([2, 0.7], rel=1e-3)
    bounded = fit(lambda p: (p[0] * np.exp(-p[1] * x) - y).tolist(), (1.0, 0.1), (0.0, 0.0), (1.5, 5.0))
    assert bounded[0] == pytest.approx(1.5)


def test_the_cases_are_runs_as_they_should_be() -> None:
    configs = [parse(case.config(speculative)) for case in CASES for speculative in (True, False)]
    assert len(CASES) == 10
    assert {config.cluster.workers for config in configs} == {1, 2}
    assert {config.rollout.max_new_tokens for config in configs} >= {64, 1024}


def test_a_large_plan_is_quick() -> None:
    found = scale(1)
    assert found["responses_per_step"] == 80_000
    assert found["seconds"] < 6
    assert found["simulated_hours"] > 0


def test_a_part_that_is_none(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ConfigError, match="there is no part x"):
        run(True, "x", tmp_path_factory.mktemp("runs"))
