"""The gate between suffix drafts and learned ones, against targets that accept at known rates."""

import json
import random

import pytest

from engine.speculation.drafter_selection import DrafterSelector
from engine.speculation.ngram.suffix_store import Draft

SURE = Draft((1, 2, 3), 6, (0.9, 0.9, 0.9))


def expected(gate: DrafterSelector, draft: Draft) -> float:
    return sum(gate.chances(draft))


def verify(gate: DrafterSelector, draft: Draft, rate: float, rng: random.Random, steps: int) -> None:
    """``steps`` verifications in which the target agrees with each token at ``rate``."""
    for _ in range(steps):
        accepted = 0
        while accepted < len(draft.tokens) and rng.random() < rate:
            accepted += 1
        gate.record(draft, accepted)


def test_a_new_gate_believes_the_confidence() -> None:
    draft = Draft((1, 2, 3), 4, (0.9, 0.5, 0.8))
    assert expected(DrafterSelector(), draft) == pytest.approx(0.9 + 0.9 * 0.5 + 0.9 * 0.5 * 0.8)
    assert expected(DrafterSelector(), Draft()) == 0


def test_one_observation_moves_it_by_hand_worked_amounts() -> None:
    """The confidence counts as four observations; the first token was accepted, the second not, the third never judged."""
    gate = DrafterSelector()
    draft = Draft((1, 2, 3), 3, (0.9, 0.5, 0.8))
    gate.record(draft, 1)
    first, second = (4 * 0.9 + 1) / 5, 4 * 0.5 / 5
    assert expected(gate, draft) == pytest.approx(first + first * second + first * second * 0.8)


def test_it_closes_on_a_store_that_lies_and_reopens_when_it_tells_the_truth() -> None:
    gate, rng = DrafterSelector(), random.Random(1)
    assert gate.offer(SURE, 1.0).tokens
    verify(gate, SURE, 0.2, rng, 500)
    assert expected(gate, SURE) == pytest.approx(0.2 + 0.2**2 + 0.2**3, abs=0.1)
    assert not gate.offer(SURE, 1.0).tokens
    verify(gate, SURE, 0.9, rng, 500)
    assert expected(gate, SURE) == pytest.approx(0.9 + 0.9**2 + 0.9**3, abs=0.25)
    assert gate.offer(SURE, 1.0).tokens


def choose(gate: DrafterSelector, draft: Draft, rate: float, rng: random.Random, steps: int) -> int:
    """``steps`` decode steps that verify ``draft`` only if the gate wants it; how often it did."""
    chosen = 0
    for _ in range(steps):
        offered = gate.offer(draft, 1.0)
        if offered.tokens:
            verify(gate, offered, rate, rng, 1)
            chosen += 1
    return chosen


def test_a_closed_gate_that_sees_only_what_it_chose_tries_again() -> None:
    gate, rng = DrafterSelector(), random.Random(8)
    choose(gate, SURE, 0.1, rng, 1000)
    assert 0 < choose(gate, SURE, 0.1, rng, 10_000) < 500, "rarely as long as the store lies"
    choose(gate, SURE, 0.9, rng, 2000)
    assert choose(gate, SURE, 0.9, rng, 1000) > 950


@pytest.mark.parametrize("rate", [0.05, 0.35, 0.6, 0.95])
def test_it_is_calibrated(rate: float) -> None:
    gate, draft = DrafterSelector(), Draft((1,), 10, (0.5,))
    estimates = []
    rng = random.Random(2)
    for _ in range(2000):
        verify(gate, draft, rate, rng, 1)
        estimates.append(expected(gate, draft))
    assert sum(estimates[200:]) / len(estimates[200:]) == pytest.approx(rate, abs=0.03)


def test_long_and_short_matches_are_learnt_apart() -> None:
    gate, rng = DrafterSelector(), random.Random(3)
    short, long = Draft((1,), 3, (0.5,)), Draft((1,), 24, (0.5,))
    verify(gate, short, 0.1, rng, 300)
    verify(gate, long, 0.9, rng, 300)
    assert expected(gate, short) < 0.25
    assert expected(gate, long) > 0.75
    assert gate.offer(long, 0.5).tokens
    assert not gate.offer(short, 0.5).tokens


def test_confident_and_doubtful_tokens_are_learnt_apart() -> None:
    gate, rng = DrafterSelector(), random.Random(4)
    verify(gate, Draft((1,), 6, (0.35,)), 0.9, rng, 300)
    assert expected(gate, Draft((1,), 6, (0.35,))) > 0.75
    assert expected(gate, Draft((1,), 6, (0.95,))) == pytest.approx(0.95), "untouched"


def test_a_later_token_counts_as_the_longer_match_it_is() -> None:
    """Token 2 after a match of 10 tokens is judged like token 0 after a match of 12."""
    gate, rng = DrafterSelector(), random.Random(5)
    verify(gate, Draft((1,), 12, (0.5,)), 0.95, rng, 300)
    taught = expected(DrafterSelector(), Draft((1, 2, 3), 10, (0.5,) * 3)), expected(gate, Draft((1, 2, 3), 10, (0.5,) * 3))
    assert taught[0] == pytest.approx(0.875)
    assert taught[1] == pytest.approx(0.5 + 0.25 + 0.25 * 0.95, abs=0.02)


def test_an_empty_draft_is_never_preferred_and_any_other_beats_nothing() -> None:
    assert not DrafterSelector(floor=0.0).offer(Draft(), 0.0).tokens
    assert DrafterSelector(floor=0.0).offer(Draft((1,), 3, (0.01,)), 0.0).tokens


def test_the_choice_turns_at_the_expected_number_of_tokens() -> None:
    gate = DrafterSelector()
    value = expected(gate, SURE)
    assert gate.offer(SURE, value).tokens, "the suffix draft costs no drafter pass"
    assert not gate.offer(SURE, value + 1e-9).tokens


def test_an_offer_lacks_the_tail_that_is_hardly_ever_reached() -> None:
    draft = Draft((1, 2, 3, 4), 5, (0.5, 0.5, 0.5, 0.9))
    reached = (0.5, 0.25, 0.125, 0.1125)
    assert DrafterSelector().offer(draft, 0.0) == Draft((1, 2), 5, (0.5, 0.5), reached[:2])
    assert DrafterSelector(floor=0.5).offer(draft, 0.0) == Draft((1,), 5, (0.5,), reached[:1])
    assert DrafterSelector(floor=0.0).offer(draft, 0.0) == Draft((1, 2, 3, 4), 5, (0.5, 0.5, 0.5, 0.9), reached)
    assert DrafterSelector(floor=0.9).offer(draft, 0.0) == Draft()
    assert DrafterSelector().offer(draft, 0.76) == Draft(), "what is left out promises nothing"


def test_an_offer_follows_what_was_measured() -> None:
    gate, rng = DrafterSelector(), random.Random(6)
    verify(gate, SURE, 0.3, rng, 300)
    assert gate.offer(SURE, 0.0).tokens == (1,)


def test_tokens_that_did_not_pay_are_tried_again_one_day() -> None:
    """Measured to be wrong, they are turned down each time; what was measured is forgotten in that."""
    gate, rng = DrafterSelector(), random.Random(9)
    draft = Draft((1, 2, 3), 12, (0.9, 0.9, 0.9))
    verify(gate, draft, 0.1, rng, 300)
    before = gate.chances(draft)
    assert gate.narrow(draft, 1) == draft.first(1)
    assert gate.narrow(draft, 0) == Draft()
    assert gate.narrow(draft, 3) == draft
    for _ in range(3000):
        gate.narrow(draft, 0)
    assert before[0] < 0.3 < 0.8 < gate.chances(draft)[0]


def test_state_survives_a_checkpoint() -> None:
    gate, rng = DrafterSelector(), random.Random(7)
    verify(gate, SURE, 0.4, rng, 50)
    resumed = DrafterSelector()
    resumed.load_state(json.loads(json.dumps(gate.state())))
    assert expected(resumed, SURE) == expected(gate, SURE)
    resumed.record(SURE, 3)
    assert expected(resumed, SURE) > expected(gate, SURE), "and is a state of its own"
