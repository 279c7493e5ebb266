"""Trees of several shapes from SGLang's EAGLE worker, which knows one: the plugin puts these functions around its own.

SGLang chooses a tree's nodes inside of what a CUDA graph records. Here that comes after it, so that a graph of drafts serves every number
of nodes. A node's score is the probability of its path.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

LEAST, LOSS = 1e-37, 1e-3
"""What a path's probability does not fall below, and what it loses a level: so a node is worse than its parent, and never without it."""


def all_candidates(
    _: Callable[..., Any], scores: Sequence[Tensor], tokens: Sequence[Tensor], parents: Sequence[Tensor], __: int
) -> tuple[Tensor, Tensor, Tensor]:
    """In place of SGLang's choice: parents [n, ...] as it has them, and scores and tokens [n, N] of all nodes."""
    first = tokens[0]
    known = torch.cat(list(parents[:-1]), 1) if len(parents) > 1 else torch.empty(len(first), 0, dtype=torch.long, device=first.device)
    return known, torch.cat(list(scores), 1).flatten(1), torch.cat(list(tokens), 1)


def verified_nodes(
    original: Callable[..., Any], batch: Any, drafts: Any, parents: Tensor, chosen: Tensor, tokens: Tensor, *rest: Any, **named: Any
) -> Any:
    """Before SGLang builds the trees: ``chosen`` and ``tokens`` [n, N] become those of the likeliest nodes [n, V], unless they are chains,
    where ``chosen`` are places and not scores."""
    if chosen is not None and chosen.is_floating_point():
        chosen, tokens = likeliest(chosen, tokens, named["topk"], named["num_draft_tokens"] - 1)
    return original(batch, drafts, parents, chosen, tokens, *rest, **named)


def likeliest(scores: Tensor, tokens: Tensor, top_k: int, verify: int) -> tuple[Tensor, Tensor]:
    """Places and tokens [n, verify] of the nodes of highest ``scores`` [n, N] in their order, which is by level: ``top_k`` nodes, then
    ``top_k`` children of each of the level's ``top_k`` best ones. A node's ancestors are always among them."""
    places = torch.arange(scores.shape[1], device=scores.device)
    levels = torch.where(places < top_k, 0, 1 + (places - top_k) // top_k**2)
    falling = scores.float().clamp_min(LEAST) * (1 - LOSS) ** levels
    chosen = falling.topk(verify, -1).indices.sort(-1).values
    return chosen, tokens.gather(1, chosen)


class NarrowDrafts:
    """An EAGLE draft worker's ``draft`` with ``top_k`` branches. Its other stages keep as many as the widest tree has, so that requests
    that come or go find one width."""

    def __init__(self, worker: Any) -> None:
        self._worker, self._widest, self._draft = worker, worker.topk, worker.draft
        self.top_k = worker.topk

    def __call__(self, batch: Any, **named: Any) -> Any:
        drafts = batch.spec_info
        drafts.topk_p, drafts.topk_index = drafts.topk_p[:, : self.top_k], drafts.topk_index[:, : self.top_k]
        self._worker.topk = self.top_k
        try:
            return self._draft(batch, **named)
        finally:
            self._worker.topk = self._widest
