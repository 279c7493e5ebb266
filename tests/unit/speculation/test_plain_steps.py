"""Which decode steps a rollout has if nobody drafts."""

from engine.speculation.plain_steps import plain_steps


def test_the_batch_shrinks_as_responses_end() -> None:
    assert plain_steps([(10, 3), (10, 5), (10, 5)], 8) == {(3, 0): 3, (2, 0): 2}


def test_the_next_one_begins_when_one_has_ended() -> None:
    assert plain_steps([(10, 4), (10, 2), (10, 7), (10, 1)], 2) == {(2, 0): 2 + 2 + 1, (1, 0): 4}


def test_steps_go_by_mean_length() -> None:
    assert plain_steps([(100, 300)], 1) == {(1, 0): 28, (1, 1): 128, (1, 2): 128, (1, 3): 16}
    # 20 and 230 tokens are 125 in the mean: three steps until that is 128; the longer one goes on at 330
    assert plain_steps([(20, 5), (230, 100)], 4) == {(2, 0): 3, (2, 1): 2, (1, 1): 21, (1, 2): 74}


def test_who_got_nothing_takes_no_step() -> None:
    assert plain_steps([(10, 0), (10, 2)], 1) == {(1, 0): 2}
    assert plain_steps([], 4) == {}
