"""How long a drafter is pretrained: to its limit, or until held-out responses gain no more."""

from dataclasses import asdict

import pytest

from engine.pretraining.schedule import DECAY, PretrainingSchedule

LIMIT = 1000.0


def after(schedule: PretrainingSchedule, gains: list[float], each: float = 50.0) -> PretrainingSchedule:
    accepted = schedule.best
    for gain in gains:
        if schedule.done:
            break
        accepted += gain
        schedule = schedule.after(schedule.spent + each, accepted)
    return schedule


def test_with_steady_gains_it_lasts_to_the_limit() -> None:
    schedule = after(PretrainingSchedule(LIMIT), [0.01] * 19)
    assert not schedule.done
    assert schedule.end == LIMIT
    assert after(schedule, [0.01]).done


def test_without_gains_the_rate_falls_at_once_and_it_ends_early() -> None:
    learned = after(PretrainingSchedule(LIMIT), [0.01] * 4)
    flat = after(learned, [0.0] * learned.patience)
    assert flat.falls_from == flat.spent == 50 * (4 + learned.patience)
    assert flat.end == pytest.approx(flat.spent / (1 - DECAY))
    assert flat.rate(flat.spent) == 1.0
    assert flat.rate(flat.end) == 0.0
    assert not flat.done
    assert after(flat, [0.0] * 20).spent < LIMIT


def test_a_gain_in_time_keeps_it_going() -> None:
    schedule = after(PretrainingSchedule(LIMIT), [0.01, 0, 0, 0, 0.01, 0, 0, 0, 0.01])
    assert schedule.falls_from is None


def test_many_gains_too_small_each_count_once_they_add_up() -> None:
    schedule = after(PretrainingSchedule(LIMIT, least_gain=0.01), [0.004] * 12)
    assert schedule.falls_from is None, "0.004 a round is 0.012 in three"


def test_the_rate_rises_stays_and_falls() -> None:
    schedule = PretrainingSchedule(LIMIT)
    rates = [schedule.rate(seconds) for seconds in (0, 10, 20, 400, 700, 850, 1000, 1100)]
    assert rates == pytest.approx([0, 0.5, 1, 1, 1, 0.5, 0, 0])


def test_a_fall_that_began_late_has_still_an_end_at_the_limit() -> None:
    schedule = after(PretrainingSchedule(LIMIT), [0.01] + [0.0] * 30)
    assert schedule.done
    assert schedule.spent <= LIMIT


def test_what_is_saved_is_what_goes_on() -> None:
    schedule = after(PretrainingSchedule(LIMIT), [0.01, 0, 0, 0, 0])
    assert PretrainingSchedule(**asdict(schedule)) == schedule
