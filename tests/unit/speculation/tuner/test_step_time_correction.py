"""The Kalman filter against dense matrices, and what it makes of slow machines, slow arms and hiccups."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.speculation.tuner.step_time_correction import FORGETTING, MACHINE_DRIFT, NOISE, UNKNOWN_MACHINE, StepTimeCorrection

DEVIATION = 0.2
ARMS, BUCKETS = ["off", "a", "b"], [1, 4]


def reference(observations: list[tuple[int, int, float, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Textbook filter on [machine, arms, arms at bucket 1, arms at bucket 4], with an observation row each; [2, 3] and [2, 3, 3]."""
    rows = {(a, b): np.r_[1, np.eye(3)[a], np.kron(np.eye(2)[b], np.eye(3)[a])] for a in range(3) for b in range(2)}
    mean, covariance = np.zeros(10), np.diag([UNKNOWN_MACHINE] + [DEVIATION**2] * 9)
    met = np.repeat([1.0, 0.0], [4, 6])
    for arm, bucket, log_ratio, steps in observations:
        met[4 + 3 * bucket : 7 + 3 * bucket] = 1.0  # what was never met does not grow less certain
        covariance = covariance + steps * np.diag(met * ([MACHINE_DRIFT] + [FORGETTING * DEVIATION**2] * 9))
        h = rows[arm, bucket]
        gain = covariance @ h / (h @ covariance @ h + NOISE * (np.pi / 2 if steps > 2 else 1) / steps)
        mean = mean + gain * (log_ratio - h @ mean)
        covariance = covariance - np.outer(gain, h @ covariance)
    all_rows = np.array([[rows[a, b] for a in range(3)] for b in range(2)])
    return all_rows @ mean, np.einsum("bai,ij,bcj->bac", all_rows, covariance, all_rows)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.floats(-0.1, 0.1), st.integers(1, 8)), max_size=20))
def test_the_filter_is_the_textbook_one(observations: list[tuple[int, int, float, int]]) -> None:
    correction = StepTimeCorrection(ARMS, DEVIATION)
    for arm, bucket, log_ratio, steps in observations:
        correction.update(arm, BUCKETS[bucket], log_ratio, steps)
    means, covariances = reference(observations)
    for bucket in (0, 1):
        mean, covariance = correction.belief(BUCKETS[bucket])
        np.testing.assert_allclose(mean, means[bucket], atol=1e-9)
        np.testing.assert_allclose(covariance, covariances[bucket], atol=1e-9)


def settled() -> StepTimeCorrection:
    correction = StepTimeCorrection(ARMS, DEVIATION)
    for _ in range(20):
        for arm in range(3):
            correction.update(arm, 4, -5.0, 8)
    return correction


def test_a_slower_machine_changes_no_ranking() -> None:
    correction = settled()
    for _ in range(5):
        correction.update(1, 4, -5.0 + np.log(2), 8)
    mean, _ = correction.belief(4)
    assert mean[1] == pytest.approx(-5 + np.log(2), abs=0.01)
    assert np.ptp(mean) < 0.05, "only one arm was measured since, but all are slower"


def test_an_arm_that_alone_is_slower_is_found_out() -> None:
    correction = settled()
    for _ in range(10):
        correction.update(0, 4, -5.0, 8)
        correction.update(1, 4, -4.7, 8)
    mean, covariance = correction.belief(4)
    assert mean[1] - mean[0] == pytest.approx(0.3, abs=0.1)
    elsewhere, _ = correction.belief(1)
    assert 0.05 < elsewhere[1] - elsewhere[0] < mean[1] - mean[0], "and suspected at other batch sizes"
    assert covariance[1, 1] + covariance[0, 0] - 2 * covariance[0, 1] < DEVIATION**2 / 4


def test_a_hiccup_is_blamed_on_the_machine_and_forgotten() -> None:
    correction = settled()
    correction.update(1, 4, -5.0 + np.log(10), 1)
    assert np.ptp(correction.belief(4)[0]) < 0.05
    correction.update(1, 4, -5.0, 8)
    assert correction.belief(4)[0] == pytest.approx(-5, abs=0.05)


def test_a_state_serves_other_arms_where_it_fits() -> None:
    correction = settled()
    correction.update(1, 1, -4.9, 8)
    state = json.loads(json.dumps(correction.state()))
    same = StepTimeCorrection(ARMS, DEVIATION)
    same.load_state(state)
    assert same.state() == correction.state()
    other = StepTimeCorrection(["off", "c", "a"], DEVIATION)
    other.load_state(state)
    mean, covariance = other.belief(4)
    before, spread = correction.belief(4)
    assert mean[[0, 2]] == pytest.approx(before[[0, 1]])
    assert covariance[np.ix_([0, 2], [0, 2])] == pytest.approx(spread[np.ix_([0, 1], [0, 1])])
    assert covariance[1, 1] == pytest.approx(state["covariance"][0][0] + 2 * DEVIATION**2), "only the machine is known"
