"""Which tokens are left, and how many of several equally likely ones: as a stable sort has it, whichever way they are found."""

import math

import pytest
import torch
from torch import Tensor

from engine.rollout.interface import Sampling
from engine.rollout.native.nucleus import cut_weights, few, nucleus

CUTS = [
    Sampling(top_p=0.9),
    Sampling(0.7, 0.95),
    Sampling(top_p=0.01),
    Sampling(top_p=0.999),
    Sampling(top_k=7),
    Sampling(1.3, 0.8, 40),
    Sampling(min_p=0.3),
    Sampling(0.8, 0.9, 60, min_p=0.02),
]
VOCABULARY = 400


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def rows(kind: str) -> Tensor:
    """[30, 400] logits. Tied: there are few different ones; impossible: most tokens are."""
    logits = torch.randn(30, VOCABULARY) * torch.linspace(0.1, 6, 30)[:, None]
    if kind == "tied":
        return logits.round()
    if kind == "impossible":
        return logits.masked_fill(torch.rand(30, VOCABULARY) < 0.8, -torch.inf).index_fill(1, torch.tensor([5]), 0)
    if kind == "certain":
        return torch.full((30, VOCABULARY), -torch.inf).index_fill(1, torch.tensor([5]), 0)
    return logits


def by_sorting(logits: Tensor, sampling: Sampling) -> Tensor:
    """The weights that are left, in double precision, best first."""
    values = (logits.double() / sampling.temperature).sort(dim=-1, descending=True, stable=True).values
    weights = (values - values[:, :1]).exp()
    if sampling.top_k:
        weights = weights.masked_fill(values < values[:, sampling.top_k - 1, None], 0)
    enough = sampling.top_p * weights.sum(-1, keepdim=True)
    if sampling.top_p < 1:
        weights = weights.masked_fill(weights.cumsum(-1) - weights >= enough, 0)
    return weights.masked_fill(values < values[:, :1] + (math.log(sampling.min_p) if sampling.min_p else -torch.inf), 0)


def same_but_for_rounding(ours: Tensor, expected: Tensor) -> None:
    """Rounding may decide about the last token, if the others have just enough."""
    ours = ours.double().sort(-1, descending=True).values
    differ = (ours > 0) != (expected[:, : ours.shape[1]] > 0)
    assert (differ.sum(-1) <= 1).all()
    assert differ.any(-1).sum() <= 6
    torch.testing.assert_close(ours.masked_fill(differ, 0), expected[:, : ours.shape[1]].masked_fill(differ, 0), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", ["ordinary", "tied", "impossible", "certain"])
@pytest.mark.parametrize("sampling", CUTS)
def test_what_is_left_is_what_sorting_leaves(sampling: Sampling, kind: str) -> None:
    logits = rows(kind)
    expected = by_sorting(logits, sampling)
    same_but_for_rounding(cut_weights(logits, sampling), expected)
    assert few(sampling, VOCABULARY) < VOCABULARY
    tokens, weights, cut = nucleus(logits, sampling, few(sampling, VOCABULARY))
    same_but_for_rounding(weights[cut], expected[cut])
    assert not expected[cut][:, weights.shape[1] :].any()
    assert torch.equal(logits.gather(1, tokens), logits.topk(weights.shape[1]).values)
    if kind == "certain" and sampling.top_p < 1 and not sampling.top_k:
        assert cut.all()
        assert (weights > 0).sum(-1).eq(1).all()


@pytest.mark.parametrize("vocabulary", [129, 8191, 8192, 8207, 20_011])
@pytest.mark.parametrize("tied", [False, True])
def test_the_likeliest_are_those_of_the_whole_vocabulary(vocabulary: int, tied: bool) -> None:
    logits = torch.randn(20, vocabulary)
    logits[:5, -9:] += 9
    logits[5:10] = -logits[5:10].sort(-1).values
    if tied:
        logits.round_()
    tokens = nucleus(logits, Sampling(min_p=0.5), 128).tokens
    assert torch.equal(logits.gather(1, tokens), logits.topk(128).values)
    assert all(len(set(row)) == 128 for row in tokens.tolist())


def test_only_rows_with_more_tokens_left_than_are_looked_at_are_not_done() -> None:
    logits = torch.zeros(3, VOCABULARY)
    logits[1, :127] = 9
    logits[2, :128] = 9
    assert nucleus(logits, Sampling(top_p=0.9995), 128).cut.tolist() == [False, True, False]
    assert nucleus(logits, Sampling(top_k=20), 128).cut.tolist() == [False, True, False]
    assert nucleus(logits, Sampling(top_k=20, top_p=0.9), 128).cut.tolist() == [False, True, False]
    assert nucleus(logits, Sampling(min_p=0.1), 128).cut.tolist() == [False, True, False]
    assert nucleus(logits, Sampling(top_p=0.99), VOCABULARY).cut.all()


def test_a_law_that_cuts_nothing_looks_at_all() -> None:
    assert [few(sampling, 50) for sampling in (Sampling(), Sampling(0.7, top_k=50), Sampling(top_k=49), Sampling(top_p=0.9))] == [
        0,
        0,
        50,
        50,
    ]
    assert few(Sampling(top_k=300), 10_000) == 600
