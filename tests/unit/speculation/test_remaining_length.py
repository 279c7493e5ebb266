"""The length predictor against worked examples and a plain mean over everything that is known."""

import json
import random
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.speculation.remaining_length import RemainingLengthPredictor

Lengths = st.lists(st.integers(1, 60), max_size=12)


def finish(predictor: RemainingLengthPredictor, group: int, *lengths: int) -> None:
    for length in lengths:
        predictor.finished(group, length)


def test_without_evidence_all_the_room_is_needed() -> None:
    predictor = RemainingLengthPredictor()
    finish(predictor, 0, 30, 50)
    assert predictor.remaining(0, 50, 200) == 150
    assert predictor.remaining(1, 10, 200) == 190, "another prompt of the same step says nothing"


def test_siblings_that_were_longer_tell_what_is_left() -> None:
    predictor = RemainingLengthPredictor()
    finish(predictor, 0, 10, 40, 60)
    assert predictor.remaining(0, 0, 100) == pytest.approx(110 / 3)
    assert predictor.remaining(0, 10, 100) == 40
    assert predictor.remaining(0, 40, 100) == 20


def test_the_prediction_stays_within_one_and_the_room() -> None:
    predictor = RemainingLengthPredictor()
    finish(predictor, 0, 90)
    assert predictor.remaining(0, 10, 50) == 40
    assert predictor.remaining(0, 50, 50) == 1
    assert predictor.remaining(0, 95, 95) == 1


def test_siblings_become_history_with_a_new_step() -> None:
    predictor = RemainingLengthPredictor()
    finish(predictor, 0, 20, 40)
    predictor.new_step()
    assert predictor.remaining(0, 10, 100) == predictor.remaining(7, 10, 100) == 20
    finish(predictor, 0, 100)
    assert predictor.remaining(7, 10, 100) == 20, "groups are numbered anew, and this one has finished nothing"


def test_one_sibling_counts_more_than_a_stranger_and_a_few_more_than_all_history() -> None:
    predictor = RemainingLengthPredictor()
    finish(predictor, 0, 20)
    predictor.new_step()
    finish(predictor, 3, 40)
    assert predictor.remaining(3, 0, 100) == pytest.approx((40 + 0.8 * 20) / 1.8)  # 4 * 1 / (1 + 4) = 0.8
    finish(predictor, 4, *[20] * 1000)
    predictor.new_step()
    finish(predictor, 3, 60, 60, 60, 60)
    assert predictor.remaining(3, 41, 100) == 19, "no length of history is above 41"
    assert predictor.remaining(3, 0, 100) > 40, "four siblings outweigh a thousand strangers"


def test_the_newest_lengths_stay_in_memory() -> None:
    predictor = RemainingLengthPredictor(memory=3)
    for length in (90, 10, 20, 30):
        predictor.finished(0, length)
        predictor.new_step()
    assert predictor.remaining(0, 0, 100) == 20


@given(Lengths, Lengths, st.integers(0, 60), st.integers(1, 80))
def test_it_is_the_weighted_mean_over_all_longer_ones(siblings: list[int], history: list[int], length: int, limit: int) -> None:
    predictor = RemainingLengthPredictor()
    finish(predictor, 1, *history)
    predictor.new_step()
    finish(predictor, 0, *siblings)
    finish(predictor, 2, 55)
    strangers = [finished for finished in history if finished > length]
    weighted = [(finished - length, 1.0) for finished in siblings if finished > length]
    weighted += [(finished - length, 4 / (len(strangers) + 4)) for finished in strangers]
    room = limit - length
    mean = sum(left * weight for left, weight in weighted) / sum(weight for _, weight in weighted) if weighted else room
    assert predictor.remaining(0, length, limit) == pytest.approx(max(1, min(mean, room)))


def test_the_outlook_is_what_longer_strangers_had_left_or_a_quarter_of_what_there_is() -> None:
    lengths = RemainingLengthPredictor()
    assert lengths.outlook(10, 100) == 90, "nothing is known but the limit"
    for length in (16, 40, 48):
        lengths.finished(0, length)
    lengths.new_step()
    assert lengths.outlook(8, 100) == (16 + 40 + 48) / 3 - 8
    assert lengths.outlook(16, 100) == (40 + 48) / 2 - 16
    assert lengths.outlook(47, 100) == 47 / 4, "who has outlived nearly all may go on"
    assert lengths.outlook(60, 100) == 40
    assert lengths.outlook(98.5, 100) == 1.5


def test_it_ranks_an_unfinished_group_of_long_responses_first() -> None:
    rng = random.Random(0)
    predictor = RemainingLengthPredictor()
    for group in range(20):
        finish(predictor, group, *(round(rng.lognormvariate(5, 0.8)) for _ in range(8)))
    predictor.new_step()
    finish(predictor, 0, *(rng.randint(100, 150) for _ in range(6)))
    finish(predictor, 1, *(rng.randint(700, 900) for _ in range(6)))
    assert predictor.remaining(1, 90, 2000) > 2 * predictor.remaining(0, 90, 2000)


def test_state_survives_a_checkpoint() -> None:
    predictor = RemainingLengthPredictor(memory=4)
    finish(predictor, 0, 5, 25, 45)
    predictor.new_step()
    finish(predictor, 3, 30, 70)
    resumed = RemainingLengthPredictor(memory=4)
    resumed.load_state(json.loads(json.dumps(predictor.state())))
    assert resumed.remaining(3, 20, 100) == predictor.remaining(3, 20, 100)
    predictor.new_step()
    resumed.new_step()
    assert resumed.remaining(3, 20, 100) == predictor.remaining(3, 20, 100)
    assert resumed.state() == predictor.state() == {"history": [25, 45, 30, 70], "siblings": []}


def test_another_thread_may_ask_while_a_step_begins() -> None:
    predictor, over, failures = RemainingLengthPredictor(10**6), threading.Event(), list[Exception]()

    def ask() -> None:
        while not over.is_set():
            try:
                predictor.remaining(1, 38, 100)
            except IndexError as error:
                failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    asking = threading.Thread(target=ask)
    asking.start()
    for times in range(12):  # the history doubles each time
        finish(predictor, 0, *[*range(1, 40)] * 2**times)
        predictor.new_step()
    over.set()
    asking.join()
    sys.setswitchinterval(before)
    assert not failures
