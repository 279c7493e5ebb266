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


class Drafting:
    """One step's drafts for all requests of the batch; ``newest`` [n, 1] are the positions of their newest tokens.

    The drafter's entries from the newest position on rest on predicted features; the next step's catching up rewrites them.
    """

    def __init__(self, passes: ForwardPasses, cache: KVCache, batch: Sequence[Response], newest: Tensor) -> None:
        self._passes, self._cache = passes, cache
        self._batch, self._newest = batch, newest

    def drafts(self, shape: Strategy, sampler: TokenSampler, noise: Noise) -> DraftTree:
        """Drafts of ``shape`` with ``noise`` [n, depth or more]: its first level is that of the first draft."""
        return (self._chain if shape.top_k == 1 else self._tree)(shape, sampler, noise, *self._catch_up())

    def _catch_up(self) -> tuple[Tensor, Tensor]:
        """Shows the drafter all that the target has seen since its last step; returns its prediction [n, hidden] of the newest
        token's feature, and the logits [n, vocabulary] that follow. Requests that are less far behind than others repeat some
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

    def _chain(self, shape: Strategy, sampler: TokenSampler, noise: Noise, feature: Tensor, logits: Tensor) -> DraftTree:
        reach = self._reach(shape.verify - 1)
        drafts = [sampler.guess(logits, noise.level(0))]
        levels = self._newest + self._cache.positions[: shape.verify - 1]
        steps = self._cache.plan(levels, reach, drafter=True)
        for level in range(shape.verify - 1):
            feature, logits = self._passes.draft(drafts[-1], feature, steps.column(level))
            drafts.append(sampler.guess(logits, noise.level(level + 1)))
        return DraftTree(torch.stack(drafts, 1))

    def _tree(self, shape: Strategy, sampler: TokenSampler, noise: Noise, feature: Tensor, logits: Tensor) -> DraftTree:
        n, k = len(self._batch), shape.top_k
        reach = self._reach((shape.depth - 1) * k)
        candidates = Candidates(n, k, feature.device)
        tokens, parents = candidates.grow(*sampler.guesses(logits, noise.level(0), k))
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
            tokens, parents = candidates.grow(*sampler.guesses(logits, noise.level(level, repeats=k), k))
            paths = torch.cat((paths.gather(1, parents[:, :, None].expand(-1, -1, paths.shape[-1])), itself), -1)
        return candidates.best(shape.verify)

    def _reach(self, entries: int) -> int:
        return max(response.length for response in self._batch) - 1 + max(entries, 1)
