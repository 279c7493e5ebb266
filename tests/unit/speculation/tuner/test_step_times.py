"""What is made of slow machines, slow arms and hiccups."""

import json

import numpy as np
import pytest

from engine.speculation.tuner.step_times import StepTimes

ARMS = ["off", "a", "b"]


def settled() -> StepTimes:
    """All arms are as predicted, on a machine a hundred times faster."""
    times = StepTimes(ARMS, 0)
    for _ in range(20):
        for arm in range(3):
            times.update(arm, 4, -5.0)
    return times


def test_a_slower_machine_changes_no_ranking() -> None:
    times = settled()
    for _ in range(5):
        times.update(2, 4, -5.0 + np.log(2))
    assert times.corrections(4) == pytest.approx([-5 + np.log(2)] * 3), "only one arm was measured since, but all are slower"


def test_an_arm_that_alone_is_slower_is_found_out() -> None:
    times = StepTimes(ARMS, 0)
    for _ in range(10):
        times.update(0, 4, -5.0)
        times.update(1, 4, -4.7)
    corrections = times.corrections(4)
    assert corrections[1] - corrections[0] == pytest.approx(0.3)
    assert corrections[2] == pytest.approx(corrections[0]), "nothing is known of an arm that was not used"
    assert times.corrections(1) == pytest.approx(corrections), "and suspected at other batch sizes"


def test_a_prediction_counts_as_many_measurements_as_it_is_worth() -> None:
    times = StepTimes(ARMS, 3)
    times.update(0, 4, -5.0)
    times.update(1, 4, -4.0)
    assert np.diff(times.corrections(4)[:2]) == pytest.approx(0.25)


def test_after_many_measurements_an_arm_still_follows() -> None:
    times = settled()
    for _ in range(100):
        times.update(1, 4, -4.7)
        times.update(0, 4, -5.0)
    assert np.diff(times.corrections(4)[:2]) == pytest.approx(0.3, abs=0.02)


def test_a_hiccup_is_forgotten_with_the_next_measurement() -> None:
    times = settled()
    times.update(2, 4, -5.0 + np.log(10))
    times.update(2, 4, -5.0)
    assert times.corrections(4) == pytest.approx([-5.0] * 3)


def test_a_state_serves_other_arms_where_it_fits() -> None:
    times = StepTimes(ARMS, 0)
    for _ in range(3):
        for arm, log_ratio in enumerate((-5.0, -4.8, -4.6)):
            times.update(arm, 4, log_ratio)
    state = json.loads(json.dumps(times.state()))
    same = StepTimes(ARMS, 0)
    same.load_state(state)
    assert same.state() == times.state()
    other = StepTimes(["off", "c", "a"], 0)
    other.load_state(state)
    assert other.corrections(4)[[0, 2]] == pytest.approx(times.corrections(4)[[0, 1]])
    assert other.last is None
