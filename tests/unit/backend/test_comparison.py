import pytest

from backend.schemas.telemetry import Series
from backend.services.comparison import compare, config_diff


def series(*values: float | None, first: int = 0) -> Series:
    return Series(steps=list(range(first, first + len(values))), values=list(values))


BASELINE = {
    "step_seconds": series(10.0, 10.0, 10.0, 10.0, 10.0),
    "phase/rollout": series(8.0, 8.0, 8.0, 8.0, 8.0),
    "reward_mean": series(0.2, 0.3, 0.4, 0.5, 0.6),
}
TLT = {
    "step_seconds": series(5.0, 6.0, 4.0, 5.0),
    "phase/rollout": series(4.0, 5.0, 3.0, 4.0),
    "reward_mean": series(0.1, 0.3, 0.5, 0.7),
    "accept_length": series(1.0, 2.0, 3.0, 4.0),
    "idle_seconds": series(2.0, 2.0, 4.0, 2.0),
    "trained_seconds": series(0.0, 2.0, 2.0, 1.0),
}


def test_the_numbers_are_those_of_pencil_and_paper() -> None:
    measures = compare(TLT, BASELINE)
    assert measures.steps == 4, "step 4 is the baseline's alone"
    assert measures.seconds_per_step == 20 / 4
    assert measures.rollout_share == 16 / 20
    assert measures.rollout_speedup == 32 / 16
    assert measures.e2e_speedup == 40 / 20
    assert (measures.reward_first, measures.reward_last) == (0.1, 0.7)
    assert measures.accept_length == 4.0
    assert measures.harvest == 5 / 10
    assert measures.reward == TLT["reward_mean"]


def test_quarters_are_means() -> None:
    run = {"step_seconds": series(*[1.0] * 8), "reward_mean": series(*range(8)), "accept_length": series(*range(8))}
    measures = compare(run, run)
    assert (measures.reward_first, measures.reward_last, measures.accept_length) == (0.5, 6.5, 6.5)


def test_a_run_against_itself_is_as_fast_as_itself() -> None:
    measures = compare(BASELINE, BASELINE)
    assert (measures.rollout_speedup, measures.e2e_speedup) == (1.0, 1.0)
    assert (measures.accept_length, measures.harvest) == (None, None)


def test_amdahl_holds() -> None:
    """end to end = 1 / ((1 - s) + s / r), with the baseline's share s, if the rest of the step takes the same time."""
    run = {"step_seconds": series(6.0, 6.0), "phase/rollout": series(4.0, 4.0)}
    measures, share = compare(run, BASELINE), compare(BASELINE, BASELINE).rollout_share
    assert share is not None
    assert measures.rollout_speedup is not None
    assert measures.e2e_speedup == pytest.approx(1 / ((1 - share) + share / measures.rollout_speedup))


@pytest.mark.parametrize("other", [{}, {"step_seconds": series(1.0, first=90)}])
def test_nothing_in_common_is_not_measured(other: dict[str, Series]) -> None:
    measures = compare(other, BASELINE)
    assert measures.steps == 0
    assert {measures.seconds_per_step, measures.rollout_share, measures.rollout_speedup, measures.e2e_speedup, measures.harvest} == {None}


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
