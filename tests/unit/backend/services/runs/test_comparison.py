"""A run against its baseline: the arithmetic by hand, and where configurations differ."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from backend.database import Database
from backend.models import Attempt
from backend.models import Run as RunRow
from backend.services.runs.comparison import compared, config_diff
from backend.services.runs.lookup import find
from backend.services.runs.submission import SubmissionOptions, submit
from backend.services.telemetry import metric_storage
from engine.config import RunConfig
from longtail.schemas.comparison import ComparedRun
from longtail.schemas.runs import Run

Lines = Mapping[str, Sequence[float | None]]
BASELINE: Lines = {
    "step_seconds": [10.0, 10.0, 10.0, 10.0, 10.0],
    "phase/rollout": [8.0, 8.0, 8.0, 8.0, 8.0],
    "reward_mean": [0.2, 0.3, 0.4, 0.5, 0.6],
}
TLT: Lines = {
    "step_seconds": [5.0, 6.0, 4.0, 5.0],
    "phase/rollout": [4.0, 5.0, 3.0, 4.0],
    "reward_mean": [0.1, 0.3, 0.5, 0.7],
    "accept_length": [1.0, 2.0, 3.0, 4.0],
    "idle_seconds": [2.0, 2.0, 4.0, 2.0],
    "trained_seconds": [0.0, 2.0, 2.0, 1.0],
}


def told(database: Database, lines: Lines, first: int = 0, **config: Any) -> str:
    """The id of a run with these values, from step ``first`` on."""
    with database.write() as session:
        run_id = submit(session, RunConfig.model_validate({"name": "run"} | config), SubmissionOptions())[0].id
        rows = [
            {"run_id": run_id, "key": key, "step": step, "value": None if value is None else float(value)}
            for key, values in lines.items()
            for step, value in enumerate(values, first)
        ]
        if rows:
            metric_storage.write_points(session, run_id, rows)
    return run_id


def compare(database: Database, run: str, baseline: str, points: int = 500) -> ComparedRun:
    with database.read() as session:
        runs = [Run.model_validate(find(session, run_id)) for run_id in (baseline, run)]
        return compared(session, runs, points)[1]


def test_the_numbers_are_those_of_pencil_and_paper(database: Database) -> None:
    measures = compare(database, told(database, TLT), told(database, BASELINE))
    assert measures.steps == 4, "step 4 is the baseline's alone"
    assert measures.seconds_per_step == 20 / 4
    assert measures.rollout_share == 16 / 20
    assert measures.rollout_speedup == 32 / 16
    assert measures.e2e_speedup == 40 / 20
    assert (measures.reward_first, measures.reward_last) == (0.1, 0.7)
    assert measures.accept_length == 4.0
    assert measures.harvest == 5 / 10
    assert (measures.reward.steps, measures.reward.values) == ([0, 1, 2, 3], TLT["reward_mean"])


def test_what_all_runs_have_is_told_beside_what_each_has_with_the_baseline(database: Database) -> None:
    """Of steps 1 to 3; a run that has not begun takes nothing from the others."""
    ids = [told(database, BASELINE), told(database, TLT), told(database, TLT, first=1, seed=7), told(database, {})]
    with database.read() as session:
        items = compared(session, [Run.model_validate(find(session, run_id)) for run_id in ids], 500)
    assert [item.steps for item in items] == [5, 4, 4, 0]
    shared = [item.shared for item in items if item.shared]
    assert [one.steps for one in shared] == [3, 3, 3, 3]
    assert [one.seconds_per_step for one in shared] == [10.0, 5.0, 5.0, None]
    assert [one.reward_last for one in shared] == [0.5, 0.7, 0.5, None]
    assert [one.e2e_speedup for one in shared] == [1.0, 2.0, None, None], "the third does other work, the last none"


def test_quarters_are_means(database: Database) -> None:
    run = told(database, {"step_seconds": [1.0] * 8, "reward_mean": range(8), "accept_length": range(8)})
    measures = compare(database, run, run)
    assert (measures.reward_first, measures.reward_last, measures.accept_length) == (0.5, 6.5, 6.5)


def test_a_run_against_itself_is_as_fast_as_itself(database: Database) -> None:
    run = told(database, BASELINE)
    measures = compare(database, run, run)
    assert (measures.rollout_speedup, measures.e2e_speedup) == (1.0, 1.0)
    assert (measures.accept_length, measures.harvest) == (None, None)


def test_amdahl_holds(database: Database) -> None:
    """end to end = 1 / ((1 - s) + s / r), with the baseline's share s, if the rest of the step takes the same time."""
    run, baseline = told(database, {"step_seconds": [6.0, 6.0], "phase/rollout": [4.0, 4.0]}), told(database, BASELINE)
    measures, share = compare(database, run, baseline), compare(database, baseline, baseline).rollout_share
    assert share is not None
    assert measures.rollout_speedup is not None
    assert measures.e2e_speedup == pytest.approx(1 / ((1 - share) + share / measures.rollout_speedup))


def test_a_run_from_before_a_setting_does_the_work_of_its_default(database: Database) -> None:
    """The twin that knows the setting is its yardstick; with another value it is none."""
    tlt, plain, other = (told(database, TLT), told(database, BASELINE), told(database, BASELINE, evaluation={"every": 3}))
    with database.write() as session:
        row = session.get_one(RunRow, tlt)
        row.config = {name: section for name, section in row.config.items() if name != "evaluation"}
    measures = compare(database, tlt, plain)
    assert (measures.confounders, measures.e2e_speedup) == ([], 40 / 20)
    measures = compare(database, tlt, other)
    assert (measures.confounders, measures.e2e_speedup) == (["evaluation.every"], None)


@pytest.mark.parametrize("other", [{}, {"step_seconds": [1.0]}])
def test_nothing_in_common_is_not_measured(database: Database, other: Lines) -> None:
    measures = compare(database, told(database, other, first=90), told(database, BASELINE))
    assert measures.steps == 0
    assert {measures.seconds_per_step, measures.rollout_share, measures.rollout_speedup, measures.e2e_speedup, measures.harvest} == {None}


@pytest.mark.parametrize(("first", "steps"), [(0, 400), (3, 1000), (60, 70), (130, 129)])
def test_long_runs_are_summed_up_from_their_roll_ups(database: Database, first: int, steps: int) -> None:
    """The baseline goes on beyond the run, and began earlier; both have gaps in their values."""
    seconds = [None if step % 11 == 3 else float(step % 7 + 1) for step in range(steps)]
    run = told(database, {"step_seconds": seconds, "reward_mean": range(steps)}, first)
    baseline = told(database, {"step_seconds": [float(step) for step in range(1500)]})
    measures = compare(database, run, baseline, points=50)
    known = [value for value in seconds if value is not None]
    mean = sum(known) / len(known)
    assert (measures.steps, measures.seconds_per_step) == (steps, pytest.approx(mean))  # type: ignore[comparison-overlap]
    assert measures.e2e_speedup == pytest.approx((first + (steps - 1) / 2) / mean)
    quarter = steps // 4
    assert (measures.reward_first, measures.reward_last) == ((quarter - 1) / 2, steps - 1 - (quarter - 1) / 2)
    assert len(measures.reward.steps) <= 50


def test_config_diff_names_what_differs() -> None:
    plain = {
        "name": "plain",
        "seed": 1,
        "task": {"name": "countdown", "four": 0.2},
        "speculation": {"enabled": False, "strategies": [1, 2]},
    }
    tlt = {"name": "tlt", "seed": 1, "task": {"name": "math"}, "speculation": {"enabled": True, "strategies": [1, 2]}}
    diff = {difference.field: difference.values for difference in config_diff({"a": plain, "b": tlt})}
    assert diff == {
        "task.name": {"a": "countdown", "b": "math"},
        "task.four": {"a": 0.2, "b": None},
        "speculation.enabled": {"a": False, "b": True},
    }


@pytest.mark.parametrize(
    ("config", "fields"),
    [
        ({"model": {"path": "small"}}, ["model.path"]),
        ({"task": {"name": "countdown", "four_numbers": 0.5}, "seed": 7}, ["seed", "task.four_numbers"]),
        ({"rollout": {"max_new_tokens": 64}}, ["rollout.max_new_tokens"]),
        ({"algorithm": {"learning_rate": 1e-3, "steps": 5}}, ["algorithm.learning_rate"]),
    ],
)
def test_runs_that_do_other_work_have_no_speedup(database: Database, config: dict[str, Any], fields: list[str]) -> None:
    found = compare(database, told(database, TLT, **config), told(database, BASELINE))
    assert found.confounders == fields
    assert (found.rollout_speedup, found.e2e_speedup) == (None, None)
    assert found.seconds_per_step == 5.0, "what is the run's own is told all the same"


@pytest.mark.parametrize("tracked", [("baseline",), ("run",), ("baseline", "run")])
def test_of_a_script_s_run_nobody_knows_the_work(database: Database, tracked: tuple[str, ...]) -> None:
    """What its configuration calls a checkpoint may be another model, and what it does not say may differ, too."""
    ids = {"baseline": told(database, BASELINE), "run": told(database, TLT)}
    with database.write() as session:
        for which in tracked:
            row = session.get_one(RunRow, ids[which])
            row.kind, row.config = "tracked", {"checkpoint": which}
    found = compare(database, ids["run"], ids["baseline"])
    assert (found.rollout_speedup, found.e2e_speedup, found.seconds_per_step) == (None, None, 5.0)


@pytest.mark.parametrize(
    "config",
    [
        {"speculation": {"enabled": False}, "algorithm": {"steps": 7}},
        {"speculation": {"tuner": {"name": "beg"}}, "drafter": {"recipe": "eagle3", "path": None}},
        {"cluster": {"workers": 4}, "rollout": {"scheduling": {"longest_first": True}}},
    ],
)
def test_runs_may_differ_in_how_the_work_is_done(database: Database, config: dict[str, Any]) -> None:
    found = compare(database, told(database, TLT, **config), told(database, BASELINE))
    assert (found.confounders, found.e2e_speedup) == ([], 2.0)


def test_a_comparison_names_the_machine_of_the_latest_attempt(database: Database) -> None:
    run, baseline = told(database, TLT), told(database, BASELINE)
    where = {"host": "node-1", "cpu": "EPYC", "cores": 2, "gpus": [{"name": "H200"}, {"name": "H200"}]}
    with database.write() as session:
        session.get_one(RunRow, run).attempt = 2
        session.add_all(
            Attempt(run_id=run, number=number, worker_id="b" * 16, environment=told) for number, told in ((1, None), (2, where))
        )
    assert compare(database, run, baseline).machine == "node-1 (EPYC, 2 cores, 2 H200)"
    assert compare(database, baseline, run).machine is None
