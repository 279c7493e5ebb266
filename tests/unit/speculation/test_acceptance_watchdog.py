"""The watchdog: exact probabilities of its verdicts, and what it says over a drafter's life."""

import json
import random
from math import comb
from typing import Any

import pytest

from engine.speculation.acceptance_watchdog import Notice, Watchdog, binomial_tail

GOOD = 0.8


def seasoned(rate: float = GOOD, tokens: int = 1000) -> Watchdog:
    """A watchdog that has seen exactly this rate with target 6 and drafter 3."""
    watchdog = Watchdog()
    watchdog.loaded("target", 6)
    watchdog.loaded("drafter", 3)
    watchdog.observe(tokens, round(rate * tokens))
    return watchdog


def decode(watchdog: Watchdog, batch: int, rate: float, steps: int, rng: random.Random) -> int:
    """The step after which the drafter was off; 0 if it never was."""
    for step in range(1, steps + 1):
        watchdog.observe(batch, sum(rng.random() < rate for _ in range(batch)))
        if not watchdog.allows:
            return step
    return 0


def probability_of_block(batch: int, rate: float, steps: int) -> float:
    """The probability that the drafter is turned off within ``steps`` steps after a load: every course that matters, by its weight."""
    outcomes = [comb(batch, k) * rate**k * (1 - rate) ** (batch - k) for k in range(batch + 1)]
    fresh = seasoned()
    fresh.loaded("target", 7)
    courses: dict[int, tuple[float, dict[str, Any]]] = {0: (1.0, fresh.state())}  # by tokens accepted so far
    blocked = 0.0
    for _ in range(steps):
        following: dict[int, tuple[float, dict[str, Any]]] = {}
        for accepted, (weight, state) in courses.items():
            for more, chance in enumerate(outcomes):
                if weight * chance < 1e-12:
                    continue
                if accepted + more not in following:
                    watchdog = Watchdog()
                    watchdog.load_state(state)
                    watchdog.observe(batch, more)
                    following[accepted + more] = 0.0, watchdog.state()
                before, after = following[accepted + more]
                following[accepted + more] = before + weight * chance, after
        off = {total for total, (_, state) in following.items() if state["collapsed"]}
        blocked += sum(following[total][0] for total in off)
        courses = {total: course for total, course in following.items() if total not in off}
    return blocked


@pytest.mark.parametrize("batch", [1, 2, 5, 7, 12, 24])
def test_a_natural_dip_raises_less_than_one_false_alarm_in_ten_thousand_loads(batch: int) -> None:
    assert probability_of_block(batch, 0.75 * GOOD, 40) < 1e-4


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 16, 64])
def test_acceptance_that_falls_to_zero_is_caught_within_20_steps(batch: int) -> None:
    watchdog = seasoned()
    watchdog.loaded("target", 7)
    assert 4 <= decode(watchdog, batch, 0.0, 20, random.Random(0)) <= 12


@pytest.mark.parametrize(("batch", "least"), [(1, 0.86), (2, 0.999), (3, 1 - 1e-6), (8, 1 - 1e-9)])
def test_acceptance_that_falls_to_a_tenth_is_caught_within_20_steps(batch: int, least: float) -> None:
    """One request alone gives 20 tokens: no test that is right about 0.6 in 9999 of 10,000 cases catches 0.1 more often than 0.87."""
    assert probability_of_block(batch, 0.1, 20) > least


def test_one_request_alone_is_watched_for_a_dozen_steps_more() -> None:
    assert probability_of_block(1, 0.05, 20) > 0.98
    assert probability_of_block(1, 0.1, 32) > 0.99


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_no_verdict_on_less_than_four_steps(batch: int) -> None:
    watchdog = seasoned()
    watchdog.loaded("drafter", 4)
    for _ in range(3):
        watchdog.observe(batch, 0)
    assert watchdog.allows


def test_an_alarm_tells_what_happened_and_what_to_do() -> None:
    watchdog = seasoned()
    watchdog.loaded("target", 7)
    watchdog.loaded("drafter", 4)
    for accepted in (3, 0, 0, 1):
        watchdog.observe(10, accepted)
    assert not watchdog.allows
    message = (
        "With target 7 and drafter 4, 10% of the drafts' first tokens are accepted (4 of 40); with target 6 and drafter 3 it was 80%. "
        "Speculation with the drafter is off until a better drafter or target weights arrive."
    )
    assert watchdog.take_alarms() == [Notice("acceptance_collapsed", message)]
    assert watchdog.take_alarms() == []


def test_a_good_drafter_brings_it_back_against_the_old_baseline() -> None:
    rng = random.Random(0)
    watchdog = seasoned()
    watchdog.loaded("drafter", 4)
    assert decode(watchdog, 4, 0.0, 20, rng)
    assert [notice.code for notice in watchdog.take_alarms()] == ["acceptance_collapsed"]
    watchdog.loaded("target", 7)
    assert watchdog.allows, "on trial"
    assert decode(watchdog, 4, 0.05, 20, rng), "measured against 80%, not against the collapse"
    assert watchdog.take_alarms() == [], "nothing new"
    watchdog.loaded("drafter", 5)
    assert not decode(watchdog, 4, 0.75, 20, rng)
    [notice] = watchdog.take_alarms()
    assert notice.code == "acceptance_recovered"
    assert "With target 7 and drafter 5" in notice.message
    assert "with target 6 and drafter 3 it was 80%" in notice.message
    watchdog.loaded("target", 8)
    assert decode(watchdog, 4, 0.0, 20, rng), "life is normal again, alarms included"
    [notice] = watchdog.take_alarms()
    assert "with target 7 and drafter 5 it was" in notice.message


def test_steps_that_were_under_way_when_it_was_turned_off_count_for_nothing() -> None:
    watchdog = seasoned()
    watchdog.loaded("drafter", 4)
    assert decode(watchdog, 64, 0.0, 20, random.Random(0)) == 4
    before = watchdog.state()
    watchdog.observe(64, 64)
    watchdog.observe(0, 0)
    assert watchdog.state() == before


@pytest.mark.parametrize("tokens", [0, 200])
def test_without_a_baseline_nothing_is_compared(tokens: int) -> None:
    watchdog = seasoned(tokens=tokens)
    watchdog.loaded("drafter", 4)
    assert not decode(watchdog, 8, 0.0, 100, random.Random(0))
    assert watchdog.take_alarms() == []


def test_without_a_load_nothing_is_tried() -> None:
    watchdog = seasoned()
    assert not decode(watchdog, 8, 0.0, 100, random.Random(0))


def test_a_dip_that_stays_becomes_the_baseline() -> None:
    rng = random.Random(1)
    watchdog = seasoned()
    for version in range(7, 12):
        watchdog.loaded("target", version)
        assert not decode(watchdog, 16, 0.5, 200, rng)
    watchdog.loaded("target", 12)
    assert not decode(watchdog, 16, 0.35, 60, rng), "less than half of 0.8, not of what it has become"
    assert watchdog.take_alarms() == []


def test_rollouts_that_are_shorter_than_a_trial_move_the_baseline_too() -> None:
    """From 80 % to 36 % over 100 loads, which is no collapse; what breaks at one of them still is, and so is its mending."""
    rng, watchdog = random.Random(1), seasoned()
    for version in range(7, 107):
        watchdog.loaded("target", version)
        assert not decode(watchdog, 20, 0.8 - 0.44 * (version - 6) / 100, 12, rng)
    assert watchdog.take_alarms() == []
    watchdog.loaded("drafter", 4)
    assert decode(watchdog, 20, 0.02, 12, rng)
    for version in (5, 6):
        watchdog.loaded("drafter", version)
        assert not decode(watchdog, 20, 0.36, 12, rng)
    assert [notice.code for notice in watchdog.take_alarms()] == ["acceptance_collapsed", "acceptance_recovered"]


def test_a_load_starts_a_trial_again() -> None:
    watchdog = seasoned()
    watchdog.loaded("target", 7)
    for _ in range(3):
        watchdog.observe(8, 0)
    watchdog.loaded("drafter", 4)
    for _ in range(3):
        watchdog.observe(8, 0)
    assert watchdog.allows
    watchdog.observe(8, 0)
    assert not watchdog.allows


@pytest.mark.parametrize("steps", [0, 3, 10])
def test_state_survives_a_checkpoint(steps: int) -> None:
    watchdog = seasoned()
    watchdog.loaded("target", 7)
    decode(watchdog, 2, 0.1, steps, random.Random(2))
    resumed = Watchdog()
    resumed.load_state(json.loads(json.dumps(watchdog.state())))
    assert resumed.allows == watchdog.allows
    watchdog.take_alarms()
    for each in (watchdog, resumed):
        decode(each, 2, 0.1, 20, random.Random(3))
        each.loaded("drafter", 8)
        decode(each, 2, GOOD, 40, random.Random(4))
    assert resumed.state() == watchdog.state()
    assert resumed.take_alarms() == watchdog.take_alarms() != []


@pytest.mark.parametrize(("most", "trials", "probability"), [(0, 1, 0.5), (3, 20, 0.6), (19, 20, 0.9), (20, 20, 0.3)])
def test_the_tail_of_the_binomial_distribution(most: int, trials: int, probability: float) -> None:
    exact = sum(comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(most + 1))
    assert binomial_tail(most, trials, probability) == pytest.approx(exact)


def test_the_tail_of_many_trials_does_not_overflow() -> None:
    assert binomial_tail(900, 2000, 0.45) == pytest.approx(0.5, abs=0.02)


def test_a_drafter_that_breaks_rollouts_of_three_steps_is_told_of() -> None:
    """No verdict falls within so few; but at the next load there is one."""
    watchdog = seasoned()
    for version in (7, 8, 9):
        watchdog.loaded("target", version)
        for _ in range(3):
            watchdog.observe(16, 0)
        assert watchdog.allows
    assert [notice.code for notice in watchdog.take_alarms()] == ["acceptance_collapsed"]
    for _ in range(8):
        watchdog.loaded("target", 10)
        for _ in range(3):
            watchdog.observe(16, 12)
    assert [notice.code for notice in watchdog.take_alarms()] == ["acceptance_recovered"]
