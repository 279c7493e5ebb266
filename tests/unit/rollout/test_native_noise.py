"""The noise of an exponential race is random enough, each of its numbers by itself and all of them together."""

from collections.abc import Sequence

import pytest
import torch
from scipy.stats import chisquare, expon, kstest, poisson
from torch import Tensor

from engine.rollout.native.noise import Noise, exponentials, mix, token_codes

CPU = torch.device("cpu")
CELLS = 16
MASK = 2**32 - 1


def noise(requests: range, positions: range, vocabulary: int, seed: int = 0) -> Noise:
    at = torch.tensor(list(positions)).expand(len(requests), -1)
    return Noise(mix(torch.tensor(seed)), token_codes(vocabulary, CPU), torch.tensor(list(requests)), at)


def drawn(requests: range, positions: range, vocabulary: int, seed: int = 0) -> Tensor:
    """[requests, positions, vocabulary]."""
    return noise(requests, positions, vocabulary, seed).exponentials.view(len(requests), len(positions), vocabulary)


def cells(exponential: Tensor) -> Tensor:
    """Which of 16 equally likely intervals each lies in."""
    return (-torch.expm1(-exponential.double()) * CELLS).long().clamp_max(CELLS - 1)


def independence(here: Tensor, there: Tensor) -> float:
    """P-value of a chi-square test that pairs fill a 16 x 16 table evenly."""
    return float(chisquare(torch.bincount((cells(here) * CELLS + cells(there)).flatten(), minlength=CELLS**2)).pvalue)


def code_of(digits: int, key: int) -> int:
    """The token's code that has these digits in the row of ``key``: the mixing backwards."""
    word = _unmixed(digits & MASK) * pow(0x735A2D97, -1, 2**32) & MASK
    word = _unmixed(word ^ (key >> 32 & MASK)) * pow(0x21F0AAAD, -1, 2**32) & MASK
    word ^= key & MASK
    return word - 2**32 if word >> 31 else word


def _unmixed(word: int) -> int:
    return word ^ word >> 15 ^ word >> 30


def with_digits(digits: Sequence[int], keys: Tensor) -> Tensor:
    codes = torch.tensor([[code_of(each, key) for each in digits] for key in keys.tolist()], dtype=torch.int32)
    return exponentials(keys, codes)


def test_mix_is_splitmix64() -> None:
    """The first numbers of the published generator for the seed 1234567."""
    state = torch.tensor([1234567, 1234567 + 0x9E3779B97F4A7C15 - 2**64])
    assert [number % 2**64 for number in mix(state).tolist()] == [6457827717110365317, 3203168211198807973]


def test_tokens_have_different_codes() -> None:
    assert len(set(token_codes(262_144, CPU).tolist())) == 262_144


@pytest.mark.parametrize("shape", [(range(50_000), range(1), 1), (range(1), range(50_000), 1), (range(1), range(1), 50_000)])
def test_noise_is_exponential_along_each_axis(shape: tuple[range, range, int]) -> None:
    sample = drawn(*shape).flatten()
    assert kstest(sample, expon.cdf).pvalue > 1e-3
    assert kstest(sample, expon(scale=1.04).cdf).pvalue < 1e-3, "the test must be able to tell laws apart"


def test_noise_of_neighbours_is_independent() -> None:
    """Of requests, positions, tokens and seeds, also three apart."""
    here = drawn(range(40), range(40), 100)
    seeds = drawn(range(40), range(40), 100, seed=1)
    for neighbour in (here.roll(1, 0), here.roll(1, 1), here.roll(1, 2), here.roll(3, 1), here.roll((1, -1), (0, 1)), seeds):
        assert independence(here, neighbour) > 1e-3
    assert independence(here, 0.98 * here.roll(1, 0) + 0.02 * here) < 1e-3, "the test must notice a part in fifty"


def test_tokens_of_a_row_are_independent_at_any_distance() -> None:
    rows = drawn(range(30), range(1), 32_768)[:, 0]
    values = [independence(rows, rows.roll(1 << bit, 1)) for bit in range(15)]
    assert min(values) > 1e-3 / len(values)


def test_small_numbers_of_two_rows_coincide_as_often_as_chance_has_it() -> None:
    """Of 44,850 pairs of rows: the small ones are those that win."""
    small = (drawn(range(300), range(1), 20_000)[:, 0] < 1 / 128).float()
    together = (small @ small.T)[tuple(torch.triu_indices(300, 300, 1))].long()
    law = poisson(20_000 * float(small.mean()) ** 2)
    observed = torch.bincount(together.clamp_max(6), minlength=7)
    expected = [*(law.pmf(count) for count in range(6)), law.sf(5)]
    assert chisquare(observed, torch.tensor(expected, dtype=torch.double) * len(together)).pvalue > 1e-3


def test_every_bit_of_seed_request_and_position_changes_all() -> None:
    """Avalanche, as far as somebody may choose the bits."""
    ids = torch.tensor([0, *(1 << bit for bit in range(40))])
    codes = token_codes(20_000, CPU)
    of_request = Noise(mix(ids[0]), codes, ids, torch.zeros(len(ids), 1, dtype=torch.long)).exponentials
    of_position = Noise(mix(ids[0]), codes, ids[:1], ids[None]).exponentials
    of_seed = torch.cat([noise(range(1), range(1), 20_000, seed).exponentials for seed in ids.tolist()])
    values = [independence(rows[0], row) for rows in (of_request, of_position, of_seed) for row in rows[1:]]
    assert min(values) > 1e-3 / len(values)
    assert kstest(values, "uniform").pvalue > 1e-3


def test_winners_are_uniform_and_independent_of_the_winner_before() -> None:
    winners = drawn(range(2000), range(30), 7).argmin(-1)
    assert chisquare(torch.bincount(winners.flatten(), minlength=7)).pvalue > 1e-3
    assert chisquare(torch.bincount((winners[:, 1:] * 7 + winners[:, :-1]).flatten(), minlength=49)).pvalue > 1e-3


def test_the_first_of_many_is_anyone_and_as_early_as_it_should_be() -> None:
    times, winners = drawn(range(3000), range(1), 10_000)[:, 0].min(-1)
    assert kstest(times * 10_000, expon.cdf).pvalue > 1e-3
    for places in (winners // 625, winners % 16):
        assert chisquare(torch.bincount(places, minlength=16)).pvalue > 1e-3


def test_the_smallest_digits_have_a_fraction_and_the_largest_are_finite() -> None:
    """A token is as rare as its weight has it also where that is below one in 2^31."""
    keys = mix(torch.arange(3000))
    smallest = with_digits([0, -1], keys) * 2.0**31
    for column in smallest.T:
        assert kstest(column, "uniform").pvalue > 1e-3
    assert 0 < smallest.min() < 1e-2
    second = with_digits([1, -2], keys) * 2.0**31
    assert second.min() >= 1
    assert second.max() <= 2
    largest = with_digits([2**31 - 1, -(2**31), -(2**31) + 1], keys)
    assert largest.isfinite().all()
    assert largest.min() > 16


def test_noise_of_some_tokens_is_that_of_all() -> None:
    """In the same bits, and whichever rows are asked for."""
    made = noise(range(5), range(4), 1001)
    rows = torch.tensor([3, 17, 3, 0])
    tokens = torch.randint(1001, (4, 77), generator=torch.Generator().manual_seed(0))
    assert torch.equal(made.rows(rows).of(tokens), made.exponentials[rows].gather(1, tokens))
    assert torch.equal(made.rows(rows).of(), made.rows(rows).kept())
    assert torch.equal(made.level(2, repeats=2).kept(), made.exponentials.view(5, 4, -1)[:, 2].repeat_interleave(2, 0))
    assert torch.equal(made.rows(rows)[1:3].kept(), made.exponentials[rows[1:3]])
