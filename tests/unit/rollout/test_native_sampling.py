"""The law is that of transformers' own logits processors, and a row's draw is its own."""

from collections.abc import Sequence

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor
from transformers import LogitsProcessorList, MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from engine.rollout.interface import Sampling
from engine.rollout.native.noise import NoiseRows
from engine.rollout.native.nucleus import FEW
from engine.rollout.native.sampling import TokenSampler

CPU = torch.device("cpu")
CUTS = [
    Sampling(0.7, 0.8),
    Sampling(1.3, 1.0, 5),
    Sampling(0.9, 0.6, 12),
    Sampling(1.0, 0.05),
    Sampling(0.9, 0.8, min_p=0.1),
    Sampling(min_p=0.02),
    Sampling(0.8, 0.9, 200, min_p=0.001),
]
LAWS = [Sampling(), Sampling(0.7), *CUTS]
GREEDY = Sampling(temperature=0, top_k=3, top_p=0.5)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def noise_of(sampler: TokenSampler, rows: int, position: int = 0) -> NoiseRows:
    return sampler.noise(torch.arange(rows), torch.full((rows, 1), position)).level(0)


def modified(logits: Tensor, sampling: Sampling) -> Tensor:
    """By transformers: log-probabilities [R, vocabulary]."""
    processors = LogitsProcessorList([TemperatureLogitsWarper(sampling.temperature)])
    if sampling.top_k:
        processors.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        processors.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        processors.append(MinPLogitsWarper(sampling.min_p))
    processed: Tensor = processors(torch.empty(len(logits), 0, dtype=torch.long), logits)  # type: ignore[arg-type]
    return processed.log_softmax(-1)


def mixed_rows(rows: int, vocabulary: int) -> Tensor:
    """By turns peaked, with a nucleus of few tokens, and flat, with one of most."""
    return torch.randn(rows, vocabulary) * torch.tensor([0.3, 4.0, 1.0]).repeat(rows)[:rows, None]


def p_value(law: Tensor, tokens: Tensor) -> float:
    """Of a chi-square test that ``tokens`` have the ``law`` [vocabulary]; 0 if there is one that cannot be. Rare ones count as one."""
    expected, observed = law.double() * len(tokens), torch.bincount(tokens, minlength=len(law)).double()
    if observed[expected == 0].any():
        return 0.0
    common = expected >= 5
    rest = expected[~common].sum()
    if rest >= 5:
        expected, observed = (torch.cat((each[common], each[~common].sum()[None])) for each in (expected, observed))
    else:
        expected, observed = expected[common], observed[common]
    return float(chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


@pytest.mark.parametrize("vocabulary", [30, FEW, 1000, 9001])
@pytest.mark.parametrize("sampling", LAWS)
def test_log_probabilities_are_those_of_the_modified_law(sampling: Sampling, vocabulary: int) -> None:
    logits = mixed_rows(60, vocabulary)
    expected = modified(logits, sampling)
    sampler = TokenSampler(sampling, vocabulary, CPU)
    for position in range(20):
        tokens, logprobs = sampler.sample(logits, noise_of(sampler, 60, position))
        torch.testing.assert_close(logprobs, expected.gather(-1, tokens[:, None])[:, 0], atol=1e-5, rtol=1e-5)
        assert logprobs.isfinite().all()


WRONG = {
    Sampling(): Sampling(0.95),
    Sampling(0.7): Sampling(0.75),
    Sampling(0.7, 0.8): Sampling(0.7, 0.75),
    Sampling(1.3, 1.0, 5): Sampling(1.3, 1.0, 6),
    Sampling(0.8, 0.9, 200): Sampling(0.8, 0.85, 200),
    Sampling(min_p=0.1): Sampling(min_p=0.15),
}


@pytest.mark.parametrize("spread", [0.5, 1.5])
@pytest.mark.parametrize("sampling", WRONG)
def test_tokens_have_the_law(sampling: Sampling, spread: float) -> None:
    """Of 300 tokens, of which the nucleus has more than are looked at alone, or fewer. 20 are too rare to come by chance."""
    logits = spread * torch.randn(300)
    logits[:20] -= 60
    sampler = TokenSampler(sampling, 300, CPU)
    rows = logits.expand(100_000, -1)
    tokens = torch.cat(
        [sampler.sample(part, noise_of(sampler, len(part), place))[0] for place, part in enumerate(torch.split(rows, 20_000))]
    )
    assert p_value(modified(logits[None], sampling)[0].exp(), tokens) > 1e-3
    assert p_value(modified(logits[None], WRONG[sampling])[0].exp(), tokens) < 1e-3, "the test must be able to tell laws apart"


@pytest.mark.parametrize("vocabulary", [90, 700])
def test_of_equally_likely_tokens_top_k_leaves_all_and_top_p_enough(vocabulary: int) -> None:
    logits = torch.zeros(50, vocabulary)
    logits[:, :40] = 3.0
    for sampling, left in (
        (Sampling(top_k=7), 40),
        (Sampling(top_k=41), vocabulary),
        (Sampling(0.7, 0.2), None),
        (Sampling(top_p=0.9), None),
    ):
        sampler = TokenSampler(sampling, vocabulary, CPU)
        weights = logits[0].div(sampling.temperature).softmax(-1).double()
        count = left or int((weights.cumsum(0) - weights < sampling.top_p - 1e-9).sum())
        drawn = torch.cat([sampler.sample(logits, noise_of(sampler, 50, position))[1] for position in range(40)])
        kept = weights[:count].log().logsumexp(0)
        for logprob in set(drawn.tolist()):
            assert float((weights.log() - kept - logprob).abs().min()) < 1e-4
        seen = {token for position in range(200) for token in sampler.sample(logits, noise_of(sampler, 50, position))[0].tolist()}
        assert len(seen) <= count
        assert len(seen) > 0.9 * count


@pytest.mark.parametrize("vocabulary", [30, 1000, 49_152, 151_937])
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(), Sampling(0.7), Sampling(0.7, 0.95), Sampling(top_k=50), Sampling(min_p=0.05)])
def test_a_row_has_the_same_bits_in_any_batch(sampling: Sampling, vocabulary: int) -> None:
    check_bits(sampling, vocabulary, range(1, 10))


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(0.7), Sampling(0.7, 0.95)])
def test_a_row_has_the_same_bits_in_any_batch_with_two_threads(sampling: Sampling) -> None:
    torch.set_num_threads(2)
    check_bits(sampling, 49_152, [2])


def check_bits(sampling: Sampling, vocabulary: int, sizes: Sequence[int]) -> None:
    """Alone, and in batches of ``sizes``."""
    most = max(sizes)
    logits = mixed_rows(most, vocabulary)
    sampler = TokenSampler(sampling, vocabulary, CPU)
    requests, positions = torch.arange(most), torch.arange(2 * most).view(most, 2)

    def results(rows: slice) -> list[Tensor]:
        noise = sampler.noise(requests[rows], positions[rows]).level(1)
        return [*sampler.sample(logits[rows], noise), sampler.guess(logits[rows], noise), *sampler.guesses(logits[rows], noise, 4)]

    alone = [torch.cat(each) for each in zip(*(results(slice(row, row + 1)) for row in range(most)), strict=True)]
    for size in sizes:
        rows = slice((most - size) // 2, (most - size) // 2 + size)
        for together, each in zip(results(rows), alone, strict=True):
            assert torch.equal(together, each[rows])


def test_greedy_takes_the_most_likely_token_and_makes_no_noise() -> None:
    logits = torch.randn(50, 30)
    sampler = TokenSampler(GREEDY, 30, CPU)
    noise = sampler.noise(torch.arange(50), torch.zeros(50, 1, dtype=torch.long))
    tokens, logprobs = sampler.sample(logits, noise.level(0))
    assert torch.equal(tokens, logits.argmax(-1))
    assert torch.equal(sampler.guess(logits, noise.level(0)), tokens)
    torch.testing.assert_close(logprobs, logits.log_softmax(-1).max(-1).values)
    torch.testing.assert_close(sampler.guesses(logits, noise.level(0), 3)[::-1], tuple(logits.log_softmax(-1).topk(3)))
    assert not {"keys", "exponentials"} & vars(noise).keys()


@pytest.mark.parametrize("vocabulary", [30, 1000, 9001])
@pytest.mark.parametrize("sampling", LAWS)
def test_guesses_are_the_likeliest_after_gumbel_noise(sampling: Sampling, vocabulary: int) -> None:
    logits = mixed_rows(60, vocabulary)
    sampler = TokenSampler(sampling, vocabulary, CPU)
    noise = noise_of(sampler, 60)
    tokens, logprobs = sampler.guesses(logits, noise, 4)
    expected = (modified(logits, sampling) - noise.of().log()).log_softmax(-1)
    torch.testing.assert_close(logprobs, expected.topk(4).values, atol=1e-5, rtol=1e-5)
    there = logprobs.isfinite()
    assert torch.equal(tokens[there], expected.topk(4).indices[there])
    assert torch.equal(tokens[:, 0], sampler.sample(logits, noise)[0])
    assert all(len(set(row)) == 4 for row in tokens.tolist())


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.8, 0.9)])
def test_a_guess_from_the_same_law_is_right_and_a_close_one_mostly(sampling: Sampling) -> None:
    """At total variation distance d a guess is right with probability (1 - d) / (1 + d) at least."""
    sampler = TokenSampler(sampling, 20, CPU)
    logits = torch.randn(20).expand(20_000, -1)
    near = logits + 0.5 * torch.randn(20)
    noise = noise_of(sampler, 20_000)
    drawn, _ = sampler.sample(logits, noise)
    assert torch.equal(sampler.guess(logits, noise), drawn)
    laws = [modified(each[:1], sampling)[0].exp() for each in (logits, near)]
    distance = (laws[0] - laws[1]).abs().sum() / 2
    assert 0.1 < distance < 0.5
    right = (sampler.guess(near, noise) == drawn).double().mean()
    assert (1 - distance) / (1 + distance) - 0.01 < right < 1 - distance + 0.01
