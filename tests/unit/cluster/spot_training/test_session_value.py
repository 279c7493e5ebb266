"""What a session saves and costs."""

import json
from itertools import count

import pytest

from engine.cluster.spot_training.session_value import ASSUMED_GAIN, LASTS, LOOK_AGAIN, SessionValue
from engine.speculation.counterfactual import DecodeSeconds
from engine.speculation.step_pace import Kind, Pace, Paces

STEPS = count()
SLOW: Paces = {Kind("OFF", 1, 0, busy=0): {"waiting": Pace(1000, 0.0), "training": Pace(1000, 1000 * 0.0953)}}
"""Steps take 1.1 times as long beside training."""


def value(learned: float = 6.0, paces: Paces = SLOW, training: float = 22.0) -> SessionValue:
    """After a rollout of 10 seconds on the slowest worker, for ``learned`` of which the learned drafter drafted."""
    found = SessionValue()
    found.rolled_out(next(STEPS), [DecodeSeconds(5.0, 5.0, 9.0, 9.0), DecodeSeconds(10.0, learned, 30.0, 30.0)], paces, training)
    return found


def test_nobody_declines_what_was_not_measured() -> None:
    assert SessionValue().pays(0)
    assert value().pays(0), "no session yet"
    unknown = SessionValue()
    unknown.rolled_out(next(STEPS), [], {}, 9.0)
    unknown.trained(0.0, 100.0)
    assert unknown.saving(50) is None
    assert unknown.pays(0), "nobody knows what a step costs, as with SGLang"


def test_a_session_costs_what_it_slows_others_by_and_what_publishing_takes() -> None:
    found = value()
    assert found.slowdown == pytest.approx(1.1, abs=1e-3)
    assert found.trained(0.0, 0.5) == pytest.approx(2.5, abs=0.01), "a tail of 22 s would have taken 20"
    assert found.cost == pytest.approx(2.5, abs=0.01)
    assert value(paces={}).trained(0.0, 0.5) == 0.5, "nothing was seen to be slower"


def test_a_slowdown_is_known_until_another_one_is_measured() -> None:
    found = value()
    for _ in range(40):
        found.rolled_out(next(STEPS), [DecodeSeconds(1.0, 1.0, 1.0, 1.0)], {}, 0.0)
    assert found.slowdown == pytest.approx(1.1, abs=1e-3)
    faster: Paces = {Kind("OFF", 1, 0, busy=0): {"waiting": Pace(1000, 0.0), "training": Pace(1000, 0.0)}}
    for _ in range(40):
        found.rolled_out(next(STEPS), [], faster, 0.0)
    assert found.slowdown == pytest.approx(1.0, abs=1e-3)


def test_until_then_it_may_be_assumed() -> None:
    found = SessionValue(assumed=1.25)
    found.rolled_out(next(STEPS), [], {}, 5.0)
    assert found.trained(0.0, 0.0) == pytest.approx(1.0)
    found.rolled_out(next(STEPS), [], SLOW, 22.0)
    assert found.trained(0.0, 0.0) == pytest.approx(2.0, abs=0.01)


def test_while_it_is_not_known_one_step_in_five_is_left_to_find_out() -> None:
    found = value(paces={})
    assert not any(map(found.looks, range(20))), "what training is worth, if anything, is seen first"
    found.trained(0.1, 0.0)
    found.trained(0.1, 0.0)
    assert [step for step in range(20) if found.looks(step)] == [4, 9, 14, 19]
    found.rolled_out(next(STEPS), [], SLOW, 0.0)
    assert [step for step in range(3 * LOOK_AGAIN) if found.looks(step)] == [LOOK_AGAIN - 1, 2 * LOOK_AGAIN - 1, 3 * LOOK_AGAIN - 1]
    unknown = SessionValue()
    unknown.trained(0.1, 0.0)
    unknown.trained(0.1, 0.0)
    assert not unknown.looks(4), "an engine that times nothing"


def test_a_rollout_that_nobody_watched_says_nothing_of_what_a_step_costs() -> None:
    found = value()
    found.rolled_out(next(STEPS), [], {}, 0.0)
    assert found.saving(1) == value().saving(1)


def test_it_pays_as_long_as_enough_steps_are_to_come() -> None:
    found = value()
    found.trained(0.04, 0.5)
    assert found.gain == pytest.approx((ASSUMED_GAIN + 0.04) / 2)
    assert found.saving(1) == pytest.approx(10 * 0.03 / 1.03)
    assert [found.pays(left) for left in (0, 1, 8, 9, 100)] == [False, False, False, True, True]


def test_a_gain_does_not_last_for_ever() -> None:
    found = value()
    assert found.saving(LASTS) == found.saving(10**6) == pytest.approx(LASTS * 10 * ASSUMED_GAIN / (1 + ASSUMED_GAIN))


def test_a_drafter_that_is_not_used_yet_is_trained_all_the_same() -> None:
    found = value(learned=0.0)
    for _ in range(50):
        found.trained(0.1, 0.1)
    assert found.pays(10)


def test_a_short_refill_does_not_say_how_long_steps_are() -> None:
    found = value()
    found.trained(0.04, 0.5)
    found.rolled_out(next(STEPS), [DecodeSeconds(0.1, 0.1, 0.1, 0.1)], {}, 0.0)
    assert found.saving(1) == pytest.approx(9 * 0.03 / 1.03)


def test_refills_of_equal_length_make_a_step_longer() -> None:
    found, decoding = SessionValue(), []
    for step in (0, 0, 0, 1, 1):
        found.rolled_out(step, [DecodeSeconds(4.0, 4.0, 4.0, 4.0), DecodeSeconds(5.0, 5.0, 5.0, 5.0)], {}, 0.0)
        decoding.append((found.saving(1) or 0.0) * (1 + ASSUMED_GAIN) / ASSUMED_GAIN)
    assert decoding == pytest.approx([5, 10, 15, 0.9 * 15, 0.9 * 0.9 * 15])


def test_the_wait_for_those_who_train_is_part_of_the_cost() -> None:
    found = SessionValue()
    found.rolled_out(next(STEPS), [], {}, 3.0, waited=0.2)
    found.rolled_out(next(STEPS), [], {}, 0.0, waited=0.1)
    assert found.trained(0.0, 0.5) == pytest.approx(0.7), "where nobody trained, nobody waited for that"


def test_sessions_that_bring_nothing_pay_less_and_less() -> None:
    found, least = value(), []
    for _ in range(6):
        found.trained(-0.3, 1.0)
        least.append(next(left for left in range(10_000) if found.pays(left)))
    assert least == sorted(least)
    assert least[-1] > 1.5 * least[0]


def test_what_tails_without_a_judged_session_cost_is_added_to_the_next_one() -> None:
    found = value()
    found.rolled_out(next(STEPS), [DecodeSeconds(1.0, 1.0, 1.0, 1.0)], {}, 22.0)
    assert found.trained(0.0, 0.0) == pytest.approx(4.0, abs=0.02)
    assert found.trained(0.0, 0.25) == 0.25


def test_noise_is_no_saving() -> None:
    assert value(paces={Kind("OFF", 1, 0, busy=0): {"waiting": Pace(1000, 50.0), "training": Pace(1000, 0.0)}}).slowdown == 1.0


def test_a_checkpoint_of_an_earlier_version_is_read() -> None:
    found = SessionValue()
    found.load_state({"gain": 0.05, "cost": 1.5, "sessions": 4, "slowdown": 1.1, "decoding": 10.0, "slowed": 0.3})
    assert (found.cost, found.sessions) == (1.5, 4)
    assert found.pays(10)


def test_it_survives_a_checkpoint() -> None:
    found, again = value(), SessionValue()
    found.trained(0.01, 3.0)
    found.rolled_out(next(STEPS), [], {}, 22.0)
    again.load_state(json.loads(json.dumps(found.state())))
    assert again.state() == found.state()
    assert (again.saving(7), again.pays(7)) == (found.saving(7), found.pays(7))
    assert again.trained(0.0, 0.0) == found.trained(0.0, 0.0) == pytest.approx(2.0, abs=0.02)
