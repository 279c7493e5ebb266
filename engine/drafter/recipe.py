"""The recipes of TLT section 4: which hidden states a drafter reads, how many of its own steps a training step unrolls, and the loss."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import linear, log_softmax, smooth_l1_loss, softmax

from engine.config import DrafterConfig
from engine.drafter.kind import DrafterKind


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

    def loss(self, predicted: Tensor, features: Tensor, head: Tensor) -> Tensor:
        """Mean over N positions of weighted smooth-L1(h', h) + CE(p, q) + KL(q, p), for the laws p of the target and q of the drafter.

        ``predicted`` h'[t+1] and ``features`` h[t+1], both [N, H], as ``head`` [V, H] reads them; it is frozen.
        """
        target = log_softmax(linear(features, head).float(), dim=-1)
        draft = log_softmax(linear(predicted, head).float(), dim=-1)
        loss = self.token_weight * -(target.exp() * draft).sum(-1).mean()
        if self.feature_weight:
            loss = loss + self.feature_weight * smooth_l1_loss(predicted, features)
        if self.reverse_kl_weight:
            loss = loss + self.reverse_kl_weight * (draft.exp() * (draft - target)).sum(-1).mean()
        return loss


RECIPES = {
    "eagle": Recipe(unroll=2),  # TLT's has one: on a good drafter that costs the later drafts of a chain what the first one gains
    "hass": Recipe(unroll=3),
    "eagle3": Recipe(kind="eagle3", unroll=7, feature_weight=0.0, token_weight=1.0, decay=0.8, through=True),
}


def configured_recipe(config: DrafterConfig) -> Recipe:
    """The recipe of that name, with the run's weight of the reverse KL."""
    return replace(RECIPES[config.recipe], reverse_kl_weight=config.reverse_kl)


def ranks(predicted: Tensor, features: Tensor, head: Tensor) -> Tensor:
    """For each of N positions: how many tokens the drafter takes to be more likely than the target's most likely one. At 0 a greedy draft
    is accepted. [N]"""
    drafted = linear(predicted, head)
    wanted = linear(features, head).argmax(-1, keepdim=True)
    return (drafted > drafted.gather(-1, wanted)).sum(-1)


def acceptance(predicted: Tensor, features: Tensor, head: Tensor) -> Tensor:
    """For each of N positions the probability that a sampled draft is accepted: sum over x of min(p(x), q(x)). [N]"""
    target = softmax(linear(features, head).float(), dim=-1)
    return target.minimum(softmax(linear(predicted, head).float(), dim=-1)).sum(-1)


def chain_acceptance(passes: Iterable[tuple[Tensor, Tensor, Tensor]], head: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Of chains of drafts, one from each position of rows [B, N], that draft the true tokens: for each depth the probability that all
    drafts up to the one at a position are accepted, 0 where there is none, and where there is one, both [B, N].

    ``passes``: for each depth (predicted, true) features [n, H], and the mask [B, N] of the n positions that they are of.
    """
    kept = possible = None
    for predicted, features, reached in passes:
        chance = torch.zeros_like(reached, dtype=torch.float32).masked_scatter(reached, acceptance(predicted, features, head))
        kept = chance if kept is None else chance * kept.roll(1, -1)  # a chain's draft before is at the position before
        possible = reached if possible is None else reached & possible.roll(1, -1)
        yield kept, possible
