"""Drafts of a batch as trees: their growth, the choice of nodes to verify, and what the target accepts of them.

Node 0 of a request is its newest known token; the drafts are nodes 1 .. V, parents before children.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from engine.rollout.native.sending import sent

NO_DRAFT = -1
FLOOR = -100.0
CHILD_PENALTY = 1e-3


@dataclass(frozen=True)
class DraftTree:
    """``tokens`` [n, V], NO_DRAFT where a request has fewer drafts; ``parents`` [n, V] are nodes, ``levels`` [n, V] count
    from 1. Both are None if every request's drafts are a chain. ``complete`` if there is NO_DRAFT nowhere; no level is above
    ``most_levels``, if that is known."""

    tokens: Tensor
    parents: Tensor | None = None
    levels: Tensor | None = None
    complete: bool = True
    most_levels: int | None = None

    @property
    def deepest(self) -> int:
        """What no level is above, for which no device is asked."""
        return self.tokens.shape[1] if self.most_levels is None else self.most_levels

    @property
    def depths(self) -> Tensor:
        """Levels of each request's drafts, [n]."""
        there = self.tokens != NO_DRAFT
        return there.sum(1) if self.levels is None else (self.levels * there).amax(1)

    def ancestors(self) -> Tensor:
        """[n, V + 1, V + 1], true where the column's node lies on the path from node 0 to the row's node, both included."""
        n, nodes = self.tokens.shape[0], self.tokens.shape[1] + 1
        if self.parents is None or self.levels is None:
            return torch.ones(nodes, nodes, dtype=torch.bool, device=self.tokens.device).tril().expand(n, -1, -1)
        itself = torch.eye(nodes, dtype=torch.bool, device=self.tokens.device).expand(n, -1, -1)
        parents = torch.nn.functional.pad(self.parents, (1, 0))
        path, levels = itself, 1
        while levels <= self.deepest:  # of which the paths are known
            path = path | path.gather(1, parents[:, :, None].expand(-1, -1, nodes))
            parents, levels = parents.gather(1, parents), 2 * levels
        return path

    def accepted(self, drawn: Tensor, ancestors: Tensor | None) -> Tensor:
        """[n, V], true for drafts that the target drew on a path that it drew: ``drawn`` [n, V + 1] are its tokens after each node."""
        if self.parents is None:
            return (self.tokens == drawn[:, :-1]).long().cumprod(1).bool()
        assert ancestors is not None
        wrong = (self.tokens != drawn.gather(1, self.parents)) | (self.tokens == NO_DRAFT)
        return ~(ancestors[:, 1:, 1:] & wrong[:, None]).any(-1)


def widened(tree: DraftTree, size: int) -> DraftTree:
    """With NO_DRAFT behind each request's drafts, up to ``size`` nodes."""
    more = size - tree.tokens.shape[1]
    if not more:
        return tree
    tokens = torch.nn.functional.pad(tree.tokens, (0, more), value=NO_DRAFT)
    if tree.parents is None or tree.levels is None:
        return DraftTree(tokens, complete=False)
    parents = torch.nn.functional.pad(tree.parents, (0, more))
    return replace(tree, tokens=tokens, parents=parents, levels=torch.nn.functional.pad(tree.levels, (0, more), value=1), complete=False)


def with_given_drafts(learned: DraftTree | None, given: Sequence[tuple[int, ...] | None], device: torch.device) -> DraftTree:
    """One tree of the learned drafter's drafts and of the chains that are ``given`` instead of them for some requests."""
    chains = [chain for chain in given if chain is not None]
    if learned is not None and not chains:
        return learned
    learned_size = learned.tokens.shape[1] if learned else 0
    size = max([learned_size, *map(len, chains)])
    whole = learned is None or learned.complete
    complete = whole and all(len(chain) == size if chain is not None else learned_size == size for chain in given)
    rows = [[*chain, *[NO_DRAFT] * (size - len(chain))] if chain is not None else [NO_DRAFT] * size for chain in given]
    tokens = sent(rows, device).view(len(given), size)
    if learned is None:
        return DraftTree(tokens, complete=complete)
    mine = sent([chain is None for chain in given], device)[:, None]
    more = size - learned_size
    tokens = torch.where(mine, torch.nn.functional.pad(learned.tokens, (0, more), value=NO_DRAFT), tokens)
    if learned.parents is None or learned.levels is None:
        return DraftTree(tokens, complete=complete)
    nodes = torch.arange(size + 1, device=device)
    parents = torch.where(mine, torch.nn.functional.pad(learned.parents, (0, more)), nodes[:-1])
    levels = torch.where(mine, torch.nn.functional.pad(learned.levels, (0, more)), nodes[1:]).masked_fill(tokens == NO_DRAFT, 1)
    return DraftTree(tokens, parents, levels, complete, max(learned.deepest, *map(len, chains)))


class Grown(NamedTuple):
    """All nodes of trees but node 0: ``tokens``, ``scores``, ``parents`` (nodes) and ``levels``, [n, N] each."""

    tokens: Tensor
    scores: Tensor
    parents: Tensor
    levels: Tensor


class Candidates:
    """Trees of n requests as they grow, ``top_k`` branches a level. A node's score is the log-probability of its path."""

    def __init__(self, requests: int, top_k: int, device: torch.device) -> None:
        self._top_k = top_k
        self._tokens: list[Tensor] = []
        self._scores: list[Tensor] = []
        self._parents: list[Tensor] = []
        self._frontier = torch.zeros(requests, 1, dtype=torch.long, device=device)
        self._frontier_scores = torch.zeros(requests, 1, device=device)
        self._nodes = 1

    def grow(self, tokens: Tensor, logprobs: Tensor) -> tuple[Tensor, Tensor]:
        """Adds the ``top_k`` best children of each frontier node, of which node 0 is the first: ``tokens`` and ``logprobs``
        [n * frontier, top_k]. Returns the new frontier, the best of these children: tokens [n, top_k], and their parents as places in the
        old one [n, top_k]."""
        # A child is always worse than its parent, so that parents are chosen first.
        scores = logprobs.clamp_min(FLOOR).view(*self._frontier.shape, -1) - CHILD_PENALTY
        scores = (scores + self._frontier_scores[:, :, None]).flatten(1)
        self._tokens.append(tokens.reshape(scores.shape))
        self._scores.append(scores)
        self._parents.append(self._frontier.repeat_interleave(self._top_k, 1))
        self._frontier_scores, chosen = scores.topk(self._top_k, -1)
        self._frontier = self._nodes + chosen
        self._nodes += scores.shape[1]
        return self._tokens[-1].gather(1, chosen), chosen // self._top_k

    def grown(self) -> Grown:
        tokens, scores, parents = (torch.cat(parts, 1) for parts in (self._tokens, self._scores, self._parents))
        levels = torch.cat([torch.full_like(part, level) for level, part in enumerate(self._tokens, 1)], 1)
        return Grown(tokens, scores, parents, levels)


def likeliest(grown: Grown, verify: int, depth: int) -> DraftTree:
    """The ``verify`` nodes of highest path probability (TLT section 4) of trees that are ``depth`` levels deep. A node's ancestors are
    always among them."""
    tokens, scores, parents, levels = grown
    chosen = scores.topk(verify, -1).indices.sort(-1).values
    renumbered = torch.zeros(len(tokens), tokens.shape[1] + 1, dtype=torch.long, device=tokens.device)
    renumbered.scatter_(1, chosen + 1, torch.arange(1, verify + 1, device=tokens.device).expand_as(chosen))
    parents = renumbered.gather(1, parents.gather(1, chosen))
    return DraftTree(tokens.gather(1, chosen), parents, levels.gather(1, chosen), most_levels=depth)
