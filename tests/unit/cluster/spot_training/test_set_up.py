"""How long a session's set-up is expected to take."""

import pytest

from engine.cluster.spot_training.set_up import WORTH, expected_set_up


def test_the_slowest_of_a_rollout_counts() -> None:
    assert expected_set_up(5.0, [0.2, 0.4], 0.0, untried=False) == 0.4


@pytest.mark.parametrize(("tail", "vain", "sessions"), [(5.0, 7, 0), (15.0, 0, 20)])
def test_tails_that_are_too_short_train_in_vain_only_now_and_then(tail: float, vain: int, sessions: int) -> None:
    """A set-up takes 6 seconds. Once, and then whenever patience has brought it down to half a tail: after two rollouts."""
    expected, seen = 0.25, [0, 0]
    for _ in range(20):
        trains = tail >= WORTH * expected
        measured = [6.0] if trains and tail >= 6.0 else []
        seen[bool(measured)] += trains
        expected = expected_set_up(expected, measured, tail if trains and not measured else 0.0, untried=not trains)
    assert seen == [vain, sessions]


def test_one_slow_set_up_does_not_end_training() -> None:
    expected, rollouts = 60.0, 0
    while WORTH * expected > 5.0:
        expected, rollouts = expected_set_up(expected, [], 0.0, untried=True), rollouts + 1
    assert rollouts < 10


def test_rollouts_in_which_nobody_was_to_train_or_training_failed_say_nothing() -> None:
    assert expected_set_up(3.0, [], 0.0, untried=False) == 3.0
