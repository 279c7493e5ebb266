"""Predicting lengths by prompt."""

import json

from engine.experience.response_lengths import ResponseLengthPredictor


def test_a_prompt_is_judged_by_its_own_responses_and_a_new_one_by_those_of_its_size() -> None:
    lengths = ResponseLengthPredictor()
    assert lengths.expected((1, 2)) == 1.0
    lengths.learn([((1, 2), 10), ((1, 2), 30), ((3, 4), 100), ((5, 6, 7), 400)])
    assert lengths.expected((1, 2)) == 20.0
    assert lengths.expected((8, 9)) == (10 + 30 + 100) / 3
    assert lengths.expected((8, 9, 9)) == 400.0
    assert lengths.expected((8,)) == ((10 + 30 + 100) / 3 + 400) / 2


def test_what_was_longer_ago_counts_less() -> None:
    lengths = ResponseLengthPredictor()
    for length in (8, 16, 16):
        lengths.learn([((1,), length)])
    assert lengths.expected((1,)) == 14.0


def test_what_was_learnt_survives_a_checkpoint() -> None:
    lengths, other = ResponseLengthPredictor(), ResponseLengthPredictor()
    lengths.learn([((1, 2), 10), ((3,), 30)])
    other.load_state(json.loads(json.dumps(lengths.state())))
    assert [other.expected(prompt) for prompt in ((1, 2), (3,), (9, 9), (7,))] == [10.0, 30.0, 10.0, 30.0]
