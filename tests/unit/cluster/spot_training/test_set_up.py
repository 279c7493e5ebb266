"""How long a session's set-up is expected to take."""

from engine.cluster.spot_training.set_up import WORTH, expected_set_up


def test_the_slowest_of_a_rollout_counts() -> None:
    assert expected_set_up(5.0, [0.2, 0.4], 9.0, wanted=True) == 0.4


def test_tails_that_are_too_short_train_in_vain_only_a_few_times() -> None:
    expected, tail, needed, vain = 0.25, 5.0, 6.0, 0
    for _ in range(20):
        trains = tail >= WORTH * expected
        vain += trains
        expected = expected_set_up(expected, [], tail if trains else 0.0, wanted=True)
    assert tail < needed
    assert vain == 3, "once, and then each time that patience has brought it down to half the tail again"


def test_one_slow_set_up_does_not_end_training() -> None:
    expected, rollouts = 60.0, 0
    while WORTH * expected > 5.0:
        expected, rollouts = expected_set_up(expected, [], 0.0, wanted=True), rollouts + 1
    assert rollouts < 40


def test_tails_in_which_nobody_was_to_train_say_nothing() -> None:
    assert expected_set_up(3.0, [], 0.0, wanted=False) == 3.0
