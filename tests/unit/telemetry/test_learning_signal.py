from engine.telemetry.learning_signal import learning_signal


def test_groups_that_are_all_alike_teach_nothing() -> None:
    rewards = [1.0, 1.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.2]
    found = learning_signal(rewards, [2, 4, 6, 8, 3, 10, 12, 14], [False] * 6 + [True, False], 2)
    assert (found["all_right_share"], found["all_wrong_share"], found["truncated_share"]) == (0.25, 0.5, 0.125)
    assert (found["right_tokens"], found["wrong_tokens"]) == (3.0, 10.0)


def test_a_length_that_no_response_has_is_not_told() -> None:
    assert "right_tokens" not in learning_signal([0.0, 0.5], [1, 2], [False, True], 2)
