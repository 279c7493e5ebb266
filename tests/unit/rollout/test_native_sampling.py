"""The noise is random enough, and the law is that of transformers' own logits processors."""

import pytest
import torch
from scipy.stats import chisquare, gumbel_r, kstest
from torch import Tensor
from transformers import LogitsProcessorList, MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from engine.rollout.interface import Sampling
from engine.rollout.native.sampling import TokenSampler, gumbel, mix


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def noise(requests: range, positions: range, vocabulary: int, seed: int = 0) -> Tensor:
    """[requests, positions, vocabulary]."""
    sampler = TokenSampler(Sampling(seed=seed), vocabulary, torch.device("cpu"))
    return sampler.noise(torch.tensor(list(requests)), torch.tensor(list(positions)).expand(len(requests), -1))


def testmix_is_splitmix64() -> None:
    """The first numbers of the published generator for the seed 1234567."""
    state = torch.tensor([1234567, 1234567 + 0x9E3779B97F4A7C15 - 2**64])
    assert [number % 2**64 for number in mix(state).tolist()] == [6457827717110365317, 3203168211198807973]


@pytest.mark.parametrize("shape", [(range(50_000), range(1), 1), (range(1), range(50_000), 1), (range(1), range(1), 50_000)])
def test_noise_is_gumbel_along_each_axis(shape: tuple[range, range, int]) -> None:
    assert kstest(noise(*shape).flatten(), gumbel_r.cdf).pvalue > 1e-3


def test_noise_of_neighbours_is_independent() -> None:
    """Of requests, positions, tokens and seeds: joint ranks fill a 16 x 16 table evenly, also three apart."""
    here = noise(range(40), range(40), 100)
    seeds = noise(range(40), range(40), 100, seed=1)
    for neighbour in (here.roll(1, 0), here.roll(1, 1), here.roll(1, 2), here.roll(3, 1), here.roll((1, -1), (0, 1)), seeds):
        cells = [(torch.exp(-torch.exp(-x.double())) * 16).long().clamp_max(15).flatten() for x in (here, neighbour)]
        assert chisquare(torch.bincount(cells[0] * 16 + cells[1], minlength=256)).pvalue > 1e-3


def test_winners_are_uniform_and_independent_of_the_winner_before() -> None:
    winners = noise(range(2000), range(30), 7).argmax(-1)
    assert chisquare(torch.bincount(winners.flatten(), minlength=7)).pvalue > 1e-3
    assert chisquare(torch.bincount((winners[:, 1:] * 7 + winners[:, :-1]).flatten(), minlength=49)).pvalue > 1e-3


def test_gumbel_of_extreme_bits_is_finite() -> None:
    extremes = gumbel(torch.tensor([0, 1, -1, 2**63 - 1, -(2**63)]))
    assert extremes.isfinite().all()
    assert extremes.min() < -2.5
    assert extremes.max() > 30


@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(0.7, 0.8), Sampling(1.3, 1.0, 5), Sampling(0.9, 0.6, 12), Sampling(1.0, 0.05), Sampling(0.9, 0.8, min_p=0.1)],
)
def test_log_probabilities_are_those_of_the_modified_law(sampling: Sampling) -> None:
    logits = 3 * torch.randn(200, 30)
    processors = LogitsProcessorList([TemperatureLogitsWarper(sampling.temperature)])
    if sampling.top_k:
        processors.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        processors.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        processors.append(MinPLogitsWarper(sampling.min_p))
    expected = processors(torch.empty(200, 0, dtype=torch.long), logits).log_softmax(-1)  # type: ignore[arg-type]
    sampler = TokenSampler(sampling, 30, torch.device("cpu"))
    for position in range(20):
        tokens, logprobs = sampler.sample(logits, sampler.noise(torch.arange(200), torch.full((200, 1), position))[:, 0])
        torch.testing.assert_close(logprobs, expected.gather(-1, tokens[:, None])[:, 0])
        assert logprobs.isfinite().all()


def test_greedy_takes_the_most_likely_token() -> None:
    logits = torch.randn(50, 30)
    sampler = TokenSampler(Sampling(temperature=0, top_k=3, top_p=0.5), 30, torch.device("cpu"))
    tokens, logprobs = sampler.sample(logits, sampler.noise(torch.arange(50), torch.zeros(50, 1, dtype=torch.long))[:, 0])
    assert torch.equal(tokens, logits.argmax(-1))
    torch.testing.assert_close(logprobs, logits.log_softmax(-1).max(-1).values)


def test_a_guess_from_the_same_law_is_right_and_a_close_one_mostly() -> None:
    """At total variation distance d a guess is right with probability (1 - d) / (1 + d) at least."""
    sampler = TokenSampler(Sampling(), 20, torch.device("cpu"))
    logits = torch.randn(20).expand(20_000, -1)
    near = logits + 0.5 * torch.randn(20)
    gumbels = sampler.noise(torch.arange(20_000), torch.zeros(20_000, 1, dtype=torch.long))[:, 0]
    drawn, _ = sampler.sample(logits, gumbels)
    assert torch.equal(sampler.guess(logits, gumbels), drawn)
    distance = (logits[0].softmax(-1) - near[0].softmax(-1)).abs().sum() / 2
    assert 0.1 < distance < 0.5
    right = (sampler.guess(near, gumbels) == drawn).double().mean()
    assert (1 - distance) / (1 + distance) - 0.01 < right < 1 - distance + 0.01
