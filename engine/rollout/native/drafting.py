"""The learned drafter at work: it catches up with the target, then drafts a chain or a tree on its own predictions."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.rollout.native.draft_tree import Candidates, DraftTree, Grown, likeliest
from engine.rollout.native.forward_passes import ForwardPasses
from engine.rollout.native.graphs.plan import Capture
from engine.rollout.native.kv_cache import KVCache
from engine.rollout.native.noise import Noise
from engine.rollout.native.placement import Placement
from engine.rollout.native.reach import written_behind
from engine.rollout.native.sampling import TokenSampler
from engine.rollout.response import Response
from engine.speculation.catch_up import catch_up_ranges
from engine.speculation.strategy import Strategy

TOKENS_PER_PASS = 4096


def scratch(strategy: Strategy, device: torch.device) -> int:
    """Cache entries beyond the newest token that drafting and verifying with ``strategy`` may write on ``device``."""
    return written_behind(strategy, device.type == "cpu")


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

    def __init__(self, passes: ForwardPasses, cache: KVCache, batch: Sequence[Response], newest: Tensor, unread: int = 0) -> None:
        """``unread`` as of DecodeBatch."""
        self._passes, self._cache = passes, cache
        self._batch, self._newest, self._unread = batch, newest, unread

    def drafts(self, shape: Strategy, sampler: TokenSampler, noise: Noise) -> DraftTree:
        """Drafts of ``shape`` with ``noise`` [n, depth + 1 or more]: its first level is that of the first draft."""
        self._fill()
        capture = Capture.of_draft(shape, len(self._batch))
        graph = self._passes.has_graph(capture)
        used = noise.first(capture.levels + 1) if graph else noise
        reach = self._known + max(1, (capture.levels - 1) * capture.tokens)

        def draft(given: dict[str, Tensor]) -> dict[str, Tensor]:
            here = used.on(given)
            if graph and sampler.keeps_noise:
                here.exponentials  # noqa: B018 - made in the graph, whoever draws with it
            guesses = Guesses(sampler, here, self._passes.drafted, capture.levels)
            drafted = self._chain if shape.top_k == 1 else self._tree
            return drafted(capture, guesses, given["newest"], reach)

        outputs = self._passes.draft_whole(capture, sampler.law, draft, used.inputs | {"newest": self._newest})
        if graph and sampler.keeps_noise and used is noise:
            noise.take()
        if shape.top_k == 1:
            tokens = outputs["tokens"]
            return DraftTree(tokens.clone() if graph else tokens)  # the next graph may use its memory
        return likeliest(Grown(**outputs), shape.verify, shape.depth)

    @property
    def _known(self) -> int:
        """Positions before the newest token of the longest, at most."""
        return max(response.length for response in self._batch) - 1 + self._unread

    def _fill(self) -> None:
        """Shows the drafter all that the target has seen since its last step, but for the last. Requests that are less far behind than
        others, or than they may be as far as the host knows, repeat some positions, to no effect."""
        cache = self._cache
        behind = [response.length - 1 - response.drafted + self._unread for response in self._batch]
        for first, after in catch_up_ranges(behind):
            most = max(behind[first:after])
            older = (self._newest[first:after] - most + cache.positions[: most - 1]).clamp_min_(0)
            for part in torch.split(older, max(1, TOKENS_PER_PASS // (after - first)), 1) if most > 1 else ():
                inputs, index = self._inputs(part, first)
                self._passes.fill(*inputs, Placement(part, self._known, first=first, index=index, drafter=True, attends=False))
        for response in self._batch:
            response.drafted = response.length - 1

    def _last(self, newest: Tensor) -> tuple[Tensor, Tensor]:
        """Shows it the last; its prediction [n, hidden] of the newest token's feature, and the logits [n, drafted] that follow."""
        last = newest - 1
        inputs, index = self._inputs(last)
        return self._passes.draft(*inputs, self._cache.plan(Placement(last, self._known, index=index, drafter=True)))

    def _inputs(self, positions: Tensor, first: int = 0) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Tokens and features that the drafter reads at ``positions`` [n, T] of slots ``first`` and following, and the rows of these."""
        index, following = self._cache.index(torch.cat((positions, positions + 1), 1), first).chunk(2, 1)
        features = self._passes.fuse(self._cache.features[index.flatten()])
        return (self._cache.tokens[following.flatten()], features), index

    def _chain(self, capture: Capture, guesses: Guesses, newest: Tensor, reach: int) -> dict[str, Tensor]:
        """Of ``newest`` [n, 1], whose drafts lie below ``reach``: ``tokens`` [n, levels]."""
        feature, logits = self._last(newest)
        drafts = [guesses.one(logits, 0)]
        steps = self._cache.chain(newest + self._cache.positions[: capture.levels - 1], reach) if capture.levels > 1 else []
        for level, step in enumerate(steps, 1):
            feature, logits = self._passes.draft(drafts[-1], feature, step)
            drafts.append(guesses.one(logits, level))
        return {"tokens": torch.stack(drafts, 1)}

    def _tree(self, capture: Capture, guesses: Guesses, newest: Tensor, reach: int) -> dict[str, Tensor]:
        """As ``_chain``; the fields of Grown."""
        n, k = capture.batch, capture.tokens
        feature, logits = self._last(newest)
        candidates = Candidates(n, k, feature.device)
        tokens, parents = candidates.grow(*guesses.many(logits, 0, k))
        features = feature[:, None]
        itself = torch.eye(k, dtype=torch.bool, device=feature.device).expand(n, -1, -1)
        paths = itself
        for level in range(1, capture.levels):
            features = features.gather(1, parents[:, :, None].expand(-1, -1, features.shape[-1]))
            positions = (newest + level - 1).expand(n, k)
            step = self._cache.plan(Placement(positions, reach, newest=newest, paths=paths, drafter=True))
            features, logits = self._passes.draft(tokens.flatten(), features.flatten(0, 1), step)
            features = features.view(n, k, -1)
            tokens, parents = candidates.grow(*guesses.many(logits, level, k, repeats=k))
            paths = torch.cat((paths.gather(1, parents[:, :, None].expand(-1, -1, paths.shape[-1])), itself), -1)
        return candidates.grown()._asdict()
