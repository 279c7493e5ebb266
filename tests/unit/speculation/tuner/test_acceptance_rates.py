"""Acceptance rates against loops over single drafts, and against values worked out by hand."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import GoodputConfig
from engine.speculation.strategy import OFF, Strategy
from engine.speculation.tuner.acceptance_rates import FIRST_GUESS, FOLLOWED, PRIOR, STALE, AcceptanceRates

CHAIN, LONG, CUT = Strategy("eagle", 2, 1, 2), Strategy("eagle", 4, 1, 4), Strategy("eagle", 8, 1, 3)
NGRAM = Strategy("ngram", 3, 1, 3)
TREE, WIDE = Strategy("eagle", 3, 4, 8), Strategy("eagle", 3, 4, 16)
ARMS = [OFF, CHAIN, LONG, CUT, NGRAM, TREE, WIDE]
FOREVER = GoodputConfig(memory=10**9)


def make(config: GoodputConfig = FOREVER) -> AcceptanceRates:
    return AcceptanceRates(ARMS, config)


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
    acceptance = AcceptanceRates([OFF, CHAIN, LONG, CUT], FOREVER)
    for accepted in steps:
        acceptance.record(LONG, accepted, 0)
    drafts = [tokens for accepted in steps for tokens in accepted]
    # chains of any depth share the rates
    for arm, levels in ((OFF, 0), (CHAIN, 2), (CUT, 3), (LONG, 4)):
        assert acceptance.expected(arm) == pytest.approx(reference(drafts, levels), rel=1e-5)


def test_drafts_from_all_batch_sizes_count_alike() -> None:
    one, many = make(), make()
    for tokens in (0, 1, 2, 2, 1, 2):
        one.record(CHAIN, [tokens], 0)
    many.record(CHAIN, [0, 1, 2, 2, 1, 2], 0)
    assert one.expected(CHAIN) == pytest.approx(many.expected(CHAIN), rel=1e-6)


def test_a_shallow_chain_says_nothing_of_deeper_positions() -> None:
    """Rates 0.75 (with the prior) at the first two positions; then each guess is the position before."""
    acceptance = make()
    acceptance.record(CHAIN, [2] * 6 + [1] + [0] * 3, 0)
    first = (7 + PRIOR * FIRST_GUESS) / (10 + PRIOR)
    second = (6 + PRIOR * first) / (7 + PRIOR)
    assert acceptance.expected(LONG) == pytest.approx(first + first * second + first * second**2 + first * second**3)


def test_each_shape_has_rates_of_its_own() -> None:
    acceptance = make()
    others = [acceptance.expected(arm) for arm in (TREE, WIDE, NGRAM)]
    acceptance.record(LONG, [4] * 100, 0)
    assert [acceptance.expected(arm) for arm in (TREE, WIDE, NGRAM)] == others
    acceptance.record(TREE, [0] * 20, 0)
    assert acceptance.expected(TREE) < 0.3
    assert acceptance.expected(LONG) > 3.5
    assert acceptance.expected(WIDE) == others[1], "a tree that verifies more is a shape of its own"


def test_memory_is_counted_in_drafts() -> None:
    """After many drafts of the memory's length the evidence is worth ``memory`` drafts, and an old one counts 1/e after as many."""
    acceptance = AcceptanceRates([OFF, Strategy("eagle", 1, 1, 1)], GoodputConfig(memory=100))
    arm = Strategy("eagle", 1, 1, 1)
    drafts = [1, 0] * 10
    for _ in range(100):
        acceptance.record(arm, drafts, 0)
    before = acceptance.state()["eagle 1 0"]
    assert sum(counts[0] for counts in before) == pytest.approx(100)
    for _ in range(5):
        acceptance.record(arm, [1, 1, 0, 1] * 5, 0)
    (accepted,), (rejected,) = acceptance.state()["eagle 1 0"]
    assert accepted == pytest.approx(50 / math.e + 75 * (1 - 1 / math.e))
    assert rejected == pytest.approx(50 / math.e + 25 * (1 - 1 / math.e))


def test_new_weights_keep_the_mean_and_leave_less_certainty() -> None:
    acceptance = make(GoodputConfig(memory=10**6, widen=0.25))
    acceptance.record(CHAIN, [1, 0] * 30, 0)
    before, spread = acceptance.expected(CHAIN), acceptance.belief()[1][1, 1]
    counts = np.array(acceptance.state()["eagle 1 0"])
    acceptance.widen()
    widened = np.array(acceptance.state()["eagle 1 0"])
    np.testing.assert_allclose(widened, counts * np.minimum(0.25, 8 / np.maximum(counts.sum(0), 8)))
    assert acceptance.expected(CHAIN) == pytest.approx(before, rel=0.1)
    assert acceptance.belief()[1][1, 1] > 3 * spread
    acceptance.record(CHAIN, [1, 0] * 5000, 0)
    acceptance.widen()
    assert np.array(acceptance.state()["eagle 1 0"]).sum(0).max() == pytest.approx(8), "at most some drafts outlive the weights"


def test_what_is_not_drafted_any_more_grows_stale() -> None:
    acceptance = make()
    acceptance.record(LONG, [4] * 50, 0)
    before = acceptance.belief()[1][2, 2]
    for _ in range(10):
        acceptance.record(OFF, [0] * 8, STALE // 10)
    counts = np.array(acceptance.state()["eagle 1 0"])
    np.testing.assert_allclose(counts[0], 50 / math.e, rtol=1e-6)
    assert acceptance.belief()[1][2, 2] > 3 * before
    acceptance.record(NGRAM, [3] * 8, STALE)
    counts = np.array(acceptance.state()["eagle 1 0"])
    np.testing.assert_allclose(counts[0], 50 / math.e**2, rtol=1e-6)


def test_what_is_drafted_is_forgotten_by_decode_steps_if_that_is_sooner_than_by_drafts() -> None:
    """Two drafts a step weigh as those of FOLLOWED steps in the end, and as ``memory`` where there are more."""
    for memory, worth in ((10**9, 2 * FOLLOWED), (2 * FOLLOWED, FOLLOWED)):
        acceptance = make(GoodputConfig(memory=memory))
        for _ in range(100):
            acceptance.record(CHAIN, [2] * 20, 10)
        counts = np.array(acceptance.state()["eagle 1 0"])
        np.testing.assert_allclose(counts[0], [worth] * 2 + [0] * 2, rtol=1e-4)
        acceptance.record(CHAIN, [0] * 20, 10)
        left = math.exp(-20 / worth)
        counts = np.array(acceptance.state()["eagle 1 0"])
        np.testing.assert_allclose(counts[:, 0], [worth * left, worth * (1 - left)], rtol=1e-4)


def test_a_change_that_nobody_told_of_is_noticed_within_200_steps() -> None:
    acceptance = make(GoodputConfig())
    rng = np.random.default_rng(0)
    for _ in range(300):
        acceptance.record(CHAIN, (rng.random(1) < 0.7).tolist(), 1)
    for _ in range(200):
        acceptance.record(CHAIN, [0], 1)
    assert acceptance.expected(CHAIN) < 0.15
    for _ in range(200):
        acceptance.record(CHAIN, [2], 1)
    assert acceptance.expected(CHAIN) > 1.6


def test_the_covariance_is_the_delta_method() -> None:
    """Variances are those of Beta posteriors; the slopes by finite differences. Arms that share no rates are independent."""
    acceptance = AcceptanceRates([OFF, CHAIN, LONG, NGRAM], FOREVER)
    drafts = [0] * 5 + [1] * 4 + [2] * 2 + [3] + [4] * 2
    acceptance.record(LONG, drafts, 0)
    rates, variances, guess = [], [], FIRST_GUESS
    for position in range(4):
        reached = [tokens for tokens in drafts if tokens >= position]
        guess = (sum(tokens > position for tokens in reached) + PRIOR * guess) / (len(reached) + PRIOR)
        rates.append(guess)
        variances.append(guess * (1 - guess) / (len(reached) + PRIOR + 1))

    def slopes(levels: int) -> np.ndarray:
        def value(p: np.ndarray) -> float:
            return math.log1p(np.cumprod(p[:levels]).sum())

        return np.array([(value(rates + step) - value(rates - step)) / 2e-6 for step in 1e-6 * np.eye(4)])

    short, long = slopes(2), slopes(4)
    expected = np.array([[(a * variances * b).sum() for a in (short, long)] for b in (short, long)])
    _, covariance = acceptance.belief()
    np.testing.assert_allclose(covariance[1:3, 1:3], expected, rtol=1e-4)
    assert not covariance[0].any()
    assert not covariance[3, :3].any()


def test_a_state_serves_other_strategies_where_it_fits() -> None:
    acceptance = make()
    acceptance.record(LONG, [3, 1, 4, 0] * 5, 1)
    acceptance.record(TREE, [2, 3] * 5, 1)
    state = json.loads(json.dumps(acceptance.state()))
    same = make()
    same.load_state(state)
    assert same.state() == acceptance.state()
    other = AcceptanceRates([OFF, NGRAM, CHAIN, Strategy("eagle", 6, 1, 6)], FOREVER)
    other.load_state(state)
    assert np.array(other.state()["eagle 1 0"])[..., :4] == pytest.approx(np.array(state["eagle 1 0"])[..., :4])
    assert other.expected(NGRAM) == make().expected(NGRAM)


def test_a_state_of_an_earlier_version_gives_its_long_memory() -> None:
    """It had a second, short one: [long or short memory, accepted or rejected, position]."""
    now, earlier = make(), make()
    now.record(LONG, [3, 1, 4, 0] * 5, 1)
    state = {name: [counts, np.zeros_like(counts).tolist()] for name, counts in now.state().items()}
    earlier.load_state(json.loads(json.dumps(state)))
    assert earlier.state() == now.state()
