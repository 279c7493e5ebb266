"""The recipes of TLT section 4: which hidden states a drafter reads, how many of its own steps a training step unrolls, and the loss."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, smooth_l1_loss, softmax

from engine.config import DrafterConfig
from engine.drafter.kind import DrafterKind
from engine.drafter.law_loss import law_loss, row_blocks
from engine.models.host_to_device import to_device

MISSED = -1


@dataclass(frozen=True)
class TrainingTruth:
    """What a drafter is to learn at N positions: the target's ``features`` h [N, H], and by its ``head`` [D, H], the rows of the tokens
    that are drafted, the probabilities p of these, among these."""

    features: Tensor
    head: Tensor


@dataclass(frozen=True)
class Recipe:
    """A training step has ``unroll`` passes; the i-th one's loss counts ``decay`` ** i. ``through``: gradients flow through them all.

    Terms of the loss: smooth-L1 of the features, soft-target cross entropy and reverse KL of the two laws. The default weights are
    those of the released TLT code for EAGLE.
    """

    kind: DrafterKind = "eagle"
    unroll: int = 1
    feature_weight: float = 1.0
    token_weight: float = 0.1
    reverse_kl_weight: float = 0.0
    decay: float = 1.0
    through: bool = False

    def loss(self, passes: Sequence[Tensor], truth: TrainingTruth, head: Tensor, reached: Tensor | None = None) -> Tensor:
        """The sum over K passes, each times its ``decay``, of the mean over the positions it has ``reached``, [K, N], None: all, of
        weighted smooth-L1(h', h) + CE(p, q) + KL(q, p), for the laws p of the target and q of the drafter.

        ``passes``: h'[t+1], [N, H] each, as ``head`` [D, H] reads it; finite where they have not reached, too.
        """
        counted = truth.features.new_ones(len(passes), len(truth.features), dtype=torch.float32) if reached is None else reached.float()
        shares = counted / counted.sum(-1, keepdim=True) * to_device(self.decays(len(passes)), counted.device)[:, None]
        loss = law_loss(passes, shares, head, truth.features, truth.head, self.token_weight, self.reverse_kl_weight)
        if self.feature_weight:
            distances = [smooth_l1_loss(predicted, truth.features, reduction="none").mean(-1) for predicted in passes]
            loss = loss + self.feature_weight * (torch.stack(distances) * shares).sum()
        return loss

    def decays(self, passes: int) -> Tensor:
        """What each of ``passes`` counts."""
        return self.decay ** torch.arange(passes)


RECIPES = {
    "eagle": Recipe(unroll=2),  # TLT's has one: on a good drafter that costs the later drafts of a chain what the first one gains
    "hass": Recipe(unroll=3),
    "eagle3": Recipe(kind="eagle3", unroll=7, feature_weight=0.0, token_weight=1.0, decay=0.8, through=True),
}


def configured_recipe(config: DrafterConfig) -> Recipe:
    """The recipe of that name, with the run's weight of the reverse KL."""
    return replace(RECIPES[config.recipe], reverse_kl_weight=config.reverse_kl)


class HeldOutTruth(NamedTuple):
    """The target at N positions: ``law`` [N, D], the probabilities of the tokens that are drafted among all, and ``best`` [N], the place
    among these of the most likely of all tokens, ``MISSED`` if it is not drafted."""

    law: Tensor
    best: Tensor

    @classmethod
    def of(cls, features: Tensor, head: Tensor, vocabulary: Tensor | None = None) -> "HeldOutTruth":
        """For the target's ``features`` [N, H] and its whole ``head`` [V, H]; ``vocabulary`` [D] is drafted from, None: all."""
        parts = [cls._of_block(features[block], head, vocabulary) for block in row_blocks(len(features), head)]
        return cls(*(torch.cat(each) for each in zip(*parts, strict=True)))

    @classmethod
    def _of_block(cls, features: Tensor, head: Tensor, vocabulary: Tensor | None) -> "HeldOutTruth":
        law = softmax(linear(features, head).float(), dim=-1)
        best = law.argmax(-1)
        if vocabulary is None:
            return cls(law, best)
        place = torch.searchsorted(vocabulary, best).clamp_(max=len(vocabulary) - 1)
        return cls(law.index_select(1, vocabulary), torch.where(vocabulary[place] == best, place, MISSED))


def ranks(predicted: Tensor, truth: HeldOutTruth, head: Tensor) -> Tensor:
    """For each of N positions: how many tokens the drafter would draft before the target's most likely one, D if it never drafts that: more
    likely ones, and of equally likely ones those of a lower index, as it drafts these in no certain order. At 0 a greedy draft is accepted.
    ``head`` [D, H] reads ``predicted`` [N, H]. [N]"""
    before = [_before(linear(predicted[block], head), truth.best[block]) for block in row_blocks(len(predicted), head)]
    return torch.cat(before).masked_fill(truth.best == MISSED, len(head))


def _before(logits: Tensor, best: Tensor) -> Tensor:
    place = best.clamp_min(0)[:, None]
    own = logits.gather(-1, place)
    first = torch.arange(logits.shape[-1], device=logits.device) < place
    return (~(logits <= own) | ((logits == own) & first)).sum(-1)  # all of them if they are NaN


def acceptance(predicted: Tensor, truth: HeldOutTruth, head: Tensor, rows: Tensor | None = None) -> Tensor:
    """For each of n positions, the ``rows`` [n] of the truth, None: all, how much the laws overlap, the sum over x of min(p(x), q(x)): the
    most with which a sampled draft can be accepted. A draft that is drawn with the target's noise is so with a little less (at 0.75 about
    0.71). [n]"""
    overlaps = []
    for block in row_blocks(len(predicted), head):
        law = truth.law[block] if rows is None else truth.law[rows[block]]
        overlaps.append(law.minimum(softmax(linear(predicted[block], head).float(), dim=-1)).sum(-1))
    return torch.cat(overlaps)


def chain_acceptance(passes: Iterable[tuple[Tensor, Tensor]], truth: HeldOutTruth, head: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Of chains of drafts, one from each position of rows [B, N], that draft the true tokens: for each depth the probability that all
    drafts up to the one at a position are accepted, 0 where there is none, and where there is one, both [B, N].

    ``passes``: for each depth predicted features [n, H], and the mask [B, N] of the n positions that they are of; ``truth`` is of those
    of the first.
    """
    first = kept = possible = None
    for predicted, reached in passes:
        first = reached if first is None else first
        chances = acceptance(predicted, truth, head, reached[first].nonzero()[:, 0])
        chance = torch.zeros_like(reached, dtype=torch.float32).masked_scatter(reached, chances)
        kept = chance if kept is None else chance * kept.roll(1, -1)  # a chain's draft before is at the position before
        possible = reached if possible is None else reached & possible.roll(1, -1)
        yield kept, possible
