"""The learned drafter at work: it catches up with the target, then drafts a chain or a tree on its own predictions."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.rollout.native.draft_tree import Candidates, DraftTree
from engine.rollout.native.forward_passes import ForwardPasses
from engine.rollout.native.kv_cache import KVCache
from engine.rollout.native.noise import Noise
from engine.rollout.native.sampling import TokenSampler
from engine.rollout.native.tree_entries import entries_needed
from engine.rollout.response import Response
from engine.speculation.strategy import Strategy

TOKENS_PER_PASS = 4096


def scratch(strategy: Strategy, device: torch.device) -> int:
    """Cache entries beyond the newest token that drafting and verifying with ``strategy`` may write on ``device``."""
    placed = strategy.top_k > 1 and device.type == "cpu"
    verified = entries_needed(strategy.verify) if placed else strategy.verify
    return max(verified, (strategy.depth - 1) * strategy.top_k)


class Guesses:
    """What the drafter takes the target to draw, from its logits of the tokens ``ids`` [D]; None: of all."""

    def __init__(self, sampler: TokenSampler, noise: Noise, ids: Tensor | None, levels: int) -> None:
        """``noise`` [n, levels or more]."""
        self._sampler, self._ids = sampler, ids
        self._noise = noise if ids is None else noise.of_tokens(ids, levels)

    def one(self, logits: Tensor, level: int) -> Tensor:
        """See ``TokenSampler.guess``; [n]."""
        return self._tokens(self._sampler.guess(logits, self._noise.level(level)))

    def many(self, logits: Tensor, level: int, count: int, repeats: int = 1) -> tuple[Tensor, Tensor]:
        """See ``TokenSampler.guesses``; [n * repeats, count] each."""
        places, logprobs = self._sampler.guesses(logits, self._noise.level(level, repeats), count)
        return self._tokens(places), logprobs

    def _tokens(self, places: Tensor) -> Tensor:
        return places if self._ids is None else self._ids[places]


class Drafting:
    """One step's drafts for all requests of the batch; ``newest`` [n, 1] are the positions of their newest tokens.

    The drafter's entries from the newest position on rest on predicted features; the next step's catching up rewrites them.
    """

    def __init__(self, passes: ForwardPasses, cache: KVCache, batch: Sequence[Response], newest: Tensor) -> None:
        self._passes, self._cache = passes, cache
        self._batch, self._newest = batch, newest

    def drafts(self, shape: Strategy, sampler: TokenSampler, noise: Noise) -> DraftTree:
        """Drafts of ``shape`` with ``noise`` [n, depth or more]: its first level is that of the first draft."""
        guesses = Guesses(sampler, noise, self._passes.drafted, shape.depth)
        return (self._chain if shape.top_k == 1 else self._tree)(shape, guesses, *self._catch_up())

    def _catch_up(self) -> tuple[Tensor, Tensor]:
        """Shows the drafter all that the target has seen since its last step; returns its prediction [n, hidden] of the newest
        token's feature, and the logits [n, drafted] that follow. Requests that are less far behind than others repeat some
        positions, to no effect."""
        cache, n = self._cache, len(self._batch)
        behind = max(response.length - 1 - response.drafted for response in self._batch)
        older = (self._newest - behind + cache.positions[: behind - 1]).clamp_min_(0)
        reach = max(response.length for response in self._batch) - 1
        for part in torch.split(older, max(1, TOKENS_PER_PASS // n), 1):
            self._passes.fill(*self._inputs(part), cache.plan(part, reach, drafter=True))
        for response in self._batch:
            response.drafted = response.length - 1
        last = self._newest - 1
        return self._passes.draft(*self._inputs(last), cache.plan(last, reach, drafter=True))

    def _inputs(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        index = self._cache.index(positions).flatten()
        return self._cache.tokens[index + 1], self._passes.fuse(self._cache.features[index])

    def _chain(self, shape: Strategy, guesses: Guesses, feature: Tensor, logits: Tensor) -> DraftTree:
        reach = self._reach(shape.verify - 1)
        drafts = [guesses.one(logits, 0)]
        levels = self._newest + self._cache.positions[: shape.verify - 1]
        steps = self._cache.plan(levels, reach, drafter=True)
        for level in range(shape.verify - 1):
            feature, logits = self._passes.draft(drafts[-1], feature, steps.column(level))
            drafts.append(guesses.one(logits, level + 1))
        return DraftTree(torch.stack(drafts, 1))

    def _tree(self, shape: Strategy, guesses: Guesses, feature: Tensor, logits: Tensor) -> DraftTree:
        n, k = len(self._batch), shape.top_k
        reach = self._reach((shape.depth - 1) * k)
        candidates = Candidates(n, k, feature.device)
        tokens, parents = candidates.grow(*guesses.many(logits, 0, k))
        features = feature[:, None]
        itself = torch.eye(k, dtype=torch.bool, device=feature.device).expand(n, -1, -1)
        paths = itself
        for level in range(1, shape.depth):
            features = features.gather(1, parents[:, :, None].expand(-1, -1, features.shape[-1]))
            positions = (self._newest + level - 1).expand(n, k)
            entries = self._newest + self._cache.positions[: level * k]
            step = self._cache.tree_plan(self._newest, positions, entries, paths, reach, drafter=True)
            features, logits = self._passes.draft(tokens.flatten(), features.flatten(0, 1), step)
            features = features.view(n, k, -1)
            tokens, parents = candidates.grow(*guesses.many(logits, level, k, repeats=k))
            paths = torch.cat((paths.gather(1, parents[:, :, None].expand(-1, -1, paths.shape[-1])), itself), -1)
        return candidates.best(shape.verify)

    def _reach(self, entries: int) -> int:
        return max(response.length for response in self._batch) - 1 + max(entries, 1)
