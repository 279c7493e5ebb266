"""Acceptance rates against loops over single drafts, and against values worked out by hand."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import GoodputConfig
from engine.speculation.strategy import OFF, Strategy
from engine.speculation.tuner.acceptance_rates import FIRST_GUESS, PRIOR, AcceptanceRates

CHAIN, LONG, CUT = Strategy("eagle", 2, 1, 2), Strategy("eagle", 4, 1, 4), Strategy("eagle", 8, 1, 3)
NGRAM = Strategy("ngram", 3, 1, 3)
TREE, WIDE = Strategy("eagle", 3, 4, 8), Strategy("eagle", 3, 4, 16)
ARMS = [OFF, CHAIN, LONG, CUT, NGRAM, TREE, WIDE]
FOREVER = GoodputConfig(memory=10**9)


def make(config: GoodputConfig = FOREVER) -> AcceptanceRates:
    return AcceptanceRates(ARMS, config)


def expected(acceptance: AcceptanceRates, strategy: Strategy) -> float:
    return float(acceptance.expected()[list(acceptance._arms).index(strategy)])


def reference(accepted: list[int], levels: int) -> float:
    """Mean accepted tokens by Beta posteriors, draft by draft; a position's prior is the mean of the one before."""
    expected, reached, guess = 0.0, 1.0, FIRST_GUESS
    for position in range(levels):
        drafts = [tokens for tokens in accepted if tokens >= position]
        guess = (sum(tokens > position for tokens in drafts) + PRIOR * guess) / (len(drafts) + PRIOR)
        reached *= guess
        expected += reached
    return expected


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=8), max_size=5))
def test_rates_are_posterior_means_by_position(steps: list[list[int]]) -> None:
    """Few enough drafts that no change is suspected."""
    acceptance = AcceptanceRates([OFF, CHAIN, LONG, CUT], FOREVER)
    for accepted in steps:
        acceptance.record(LONG, accepted)
    drafts = [tokens for accepted in steps for tokens in accepted]
    # chains of any depth share the rates
    for arm, levels in ((OFF, 0), (CHAIN, 2), (CUT, 3), (LONG, 4)):
        assert expected(acceptance, arm) == pytest.approx(reference(drafts, levels), rel=1e-5)


def test_drafts_from_all_batch_sizes_count_alike() -> None:
    one, many = make(), make()
    for tokens in (0, 1, 2, 2, 1, 2):
        one.record(CHAIN, [tokens])
    many.record(CHAIN, [0, 1, 2, 2, 1, 2])
    assert expected(one, CHAIN) == pytest.approx(expected(many, CHAIN), rel=1e-6)


def test_a_shallow_chain_says_nothing_of_deeper_positions() -> None:
    """Rates 0.75 (with the prior) at the first two positions; then each guess is the position before."""
    acceptance = make()
    acceptance.record(CHAIN, [2] * 6 + [1] + [0] * 3)
    first = (7 + PRIOR * FIRST_GUESS) / (10 + PRIOR)
    second = (6 + PRIOR * first) / (7 + PRIOR)
    assert expected(acceptance, LONG) == pytest.approx(first + first * second + first * second**2 + first * second**3)


def test_shapes_of_a_drafter_lend_each_other_a_guess_and_other_drafters_do_not() -> None:
    acceptance = make()
    tree, ngram = expected(acceptance, TREE), expected(acceptance, NGRAM)
    acceptance.record(LONG, [4] * 100)
    assert expected(acceptance, TREE) > tree + 1
    assert expected(acceptance, NGRAM) == ngram
    acceptance.record(TREE, [0] * 20)
    assert expected(acceptance, TREE) < 0.3, "evidence of its own soon counts more"
    assert expected(acceptance, LONG) > 3.5
    assert expected(acceptance, WIDE) > 1.5, "a tree that verifies more is a shape of its own"


def test_memory_is_counted_in_drafts() -> None:
    """After many drafts of the memory's length the evidence is worth ``memory`` drafts, and an old one counts 1/e after as many."""
    acceptance = AcceptanceRates([OFF, Strategy("eagle", 1, 1, 1)], GoodputConfig(memory=100))
    arm = Strategy("eagle", 1, 1, 1)
    drafts = [1, 0] * 10
    for _ in range(100):
        acceptance.record(arm, drafts)
    before = acceptance.state()["eagle 1 0"]
    assert sum(counts[0] for counts in before) == pytest.approx(100)
    for _ in range(5):
        acceptance.record(arm, [1, 1, 0, 1] * 5)
    (accepted,), (rejected,) = acceptance.state()["eagle 1 0"]
    assert accepted == pytest.approx(50 / math.e + 75 * (1 - 1 / math.e))
    assert rejected == pytest.approx(50 / math.e + 25 * (1 - 1 / math.e))


def test_new_weights_keep_the_mean_and_leave_less_certainty() -> None:
    acceptance = make(GoodputConfig(memory=10**6, widen=0.25))
    acceptance.record(CHAIN, [1, 0] * 6)
    before, spread = expected(acceptance, CHAIN), drawn(acceptance, CHAIN).std()
    counts = np.array(acceptance.state()["eagle 1 0"])
    acceptance.widen()
    np.testing.assert_allclose(np.array(acceptance.state()["eagle 1 0"]), 0.25 * counts)
    assert expected(acceptance, CHAIN) == pytest.approx(before, rel=0.15)
    assert drawn(acceptance, CHAIN).std() > 1.5 * spread
    acceptance.record(CHAIN, [1, 0] * 5000)
    acceptance.widen()
    assert np.array(acceptance.state()["eagle 1 0"]).sum(0).max() == pytest.approx(4), "at most some drafts outlive the weights"


def test_rates_are_drawn_from_what_is_believed_of_them() -> None:
    """A chain's first rate, after 30 of 40 drafts: Beta(31, 11) with the first guess. Chains draw the same rates; a seed draws the same."""
    acceptance = make()
    acceptance.record(LONG, [1] * 30 + [0] * 10)
    first = AcceptanceRates([OFF, Strategy("eagle", 1, 1, 1)], FOREVER)
    first.record(Strategy("eagle", 1, 1, 1), [1] * 30 + [0] * 10)
    draws = drawn(first, Strategy("eagle", 1, 1, 1))
    assert draws.mean() == pytest.approx(31 / 42, abs=0.01)
    assert draws.var() == pytest.approx(31 * 11 / 42**2 / 43, rel=0.15)
    assert (drawn(acceptance, CHAIN) <= drawn(acceptance, LONG)).all(), "of the same rates a deeper chain brings no less"
    assert not drawn(acceptance, OFF).any()
    assert drawn(acceptance, LONG).tolist() == drawn(acceptance, LONG).tolist()


def drawn(acceptance: AcceptanceRates, strategy: Strategy) -> np.ndarray:
    place = list(acceptance._arms).index(strategy)
    return np.array([acceptance.drawn(np.random.default_rng(seed))[place] for seed in range(1000)])


def test_a_state_of_an_earlier_version_has_a_second_memory() -> None:
    acceptance, other = make(), make()
    acceptance.record(LONG, [3, 1, 4, 0] * 5)
    state = {name: [counts, [[0.0] * 4] * 2] for name, counts in acceptance.state().items()}
    other.load_state(json.loads(json.dumps(state)))
    assert other.state() == acceptance.state()


def test_a_state_serves_other_strategies_where_it_fits() -> None:
    acceptance = make()
    acceptance.record(LONG, [3, 1, 4, 0] * 5)
    acceptance.record(TREE, [2, 3] * 5)
    state = json.loads(json.dumps(acceptance.state()))
    same = make()
    same.load_state(state)
    assert same.state() == acceptance.state()
    other = AcceptanceRates([OFF, NGRAM, CHAIN, Strategy("eagle", 6, 1, 6)], FOREVER)
    other.load_state(state)
    assert np.array(other.state()["eagle 1 0"])[..., :4] == pytest.approx(np.array(state["eagle 1 0"])[..., :4])
    assert expected(other, NGRAM) == expected(make(), NGRAM)
