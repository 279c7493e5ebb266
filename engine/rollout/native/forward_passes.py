"""The forward passes over the cache: CUDA graphs where a plan has them, else eager."""

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from torch import Tensor

from engine.rollout.native.decoder_layer import ForwardPass
from engine.rollout.native.graphs.plan import Capture, GraphPlan, Part, bucket
from engine.rollout.native.graphs.pool import Function, GraphPool, Recorder
from engine.rollout.native.kv_cache import KVCache
from engine.rollout.native.model import DraftModel, TargetModel
from engine.rollout.native.placement import Placement

Outputs = dict[str, Tensor]


class Graph(NamedTuple):
    """The key of a graph. ``law`` is what a draft draws by."""

    capture: Capture
    law: Hashable = None


class ForwardPasses:
    """What target and drafter compute. With a ``plan`` a decode step should have its ``batch`` and ``tokens``, for which there are
    graphs; without, everything is eager. What a pass returns holds until the next one."""

    def __init__(
        self,
        target: TargetModel,
        drafter: DraftModel | None,
        cache: KVCache,
        plan: GraphPlan | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """``recorder`` as in GraphPool."""
        self._target, self._drafter, self._cache = target, drafter, cache
        self.plan = plan
        self.pool = GraphPool(cache.positions.device, recorder)

    @property
    def drafted(self) -> Tensor | None:
        """The tokens [D] that the drafter's logits are of; None: all."""
        assert self._drafter
        return self._drafter.vocabulary

    def use_drafter(self, drafter: DraftModel) -> None:
        """Goes on with another drafter. The graphs have the old one's weights in them, so they are dropped."""
        self.pool.clear()
        self._drafter = drafter

    def use(self, cache: KVCache) -> None:
        """Goes on with another cache. The graphs have the old one's memory in them, so they are dropped."""
        self._cache = cache
        self.pool.clear()

    def batch(self, requests: int) -> int:
        """The batch size that a step of so many requests is padded to."""
        return bucket(requests, self.plan.max_batch) if self.plan and requests <= self.plan.max_batch else requests

    def tokens(self, batch: int, tokens: int) -> int:
        """How many tokens of each request the target takes, so that there is a graph, if ``tokens`` are to be verified."""
        graphs = self.plan.target if self.plan else ()
        return min((graph.tokens for graph in graphs if graph.batch == batch and graph.tokens >= tokens), default=tokens)

    def prefill(self, tokens: Tensor, placed: Placement) -> None:
        """Extends the cache by tokens [R] and their features."""
        self._run(None, self._extend, placed, tokens=tokens)

    def verify(self, tokens: Tensor, placed: Placement) -> Tensor:
        """Extends the cache by tokens [R] and their features; the target's logits [R, vocabulary] after each."""
        return self._run("target", self._verify, placed, tokens=tokens)["logits"]

    def fuse(self, captured: Tensor) -> Tensor:
        """The target's features [R, width] as the drafter reads them, [R, hidden]; eager, for it is one product at most."""
        assert self._drafter
        return self._drafter.fuse(captured)

    def fill(self, tokens: Tensor, features: Tensor, placed: Placement) -> None:
        """Extends the drafter's cache by tokens [R] and the ``features`` [R, hidden] before each."""
        self._run(None, self._fill, placed, tokens=tokens, features=features)

    def draft(self, tokens: Tensor, features: Tensor, step: ForwardPass) -> tuple[Tensor, Tensor]:
        """As ``fill``; the drafter's features [R, hidden] for the tokens, and the logits [R, drafted] after each. What drafts is a graph
        as a whole, see ``draft_whole``."""
        assert self._drafter
        features = self._drafter.features(self._drafter.embed(tokens, self._target), features, step)
        return features, self._drafter.logits(features, self._target)

    def has_graph(self, capture: Capture) -> bool:
        """Whether what ``capture`` says runs as a graph."""
        return self.plan is not None and capture in self.plan

    def draft_whole(self, capture: Capture, law: Hashable, draft: Function, inputs: Mapping[str, Tensor]) -> Outputs:
        """All of a draft: ``draft`` of ``inputs``, as a function of a GraphPool."""
        return self.pool.run(Graph(capture, law) if self.has_graph(capture) else None, draft, inputs)

    def _run(self, part: Part | None, function: Callable[[ForwardPass, Outputs], Outputs], placed: Placement, **inputs: Tensor) -> Outputs:
        """``part``: None for a pass that no plan has a graph of."""
        key = self._key(part, placed)
        if key is None:
            return function(self._cache.plan(placed), inputs)
        return self.pool.run(key, lambda given: function(self._cache.plan(placed.on(given)), given), inputs | placed.tensors)

    def _key(self, part: Part | None, placed: Placement) -> Graph | None:
        if part is None:
            return None
        capture = Capture(part, placed.requests, placed.tokens)
        return Graph(capture) if self.has_graph(capture) else None

    def _extend(self, step: ForwardPass, given: Mapping[str, Tensor]) -> Outputs:
        features = self._target.features(given["tokens"], step)
        if self._drafter:
            self._cache.features.index_copy_(0, step.index, features)
        return {"features": features}

    def _verify(self, step: ForwardPass, given: Mapping[str, Tensor]) -> Outputs:
        return {"logits": self._target.logits(self._extend(step, given)["features"])}

    def _fill(self, step: ForwardPass, given: Mapping[str, Tensor]) -> Outputs:
        assert self._drafter
        self._drafter.fill(self._drafter.embed(given["tokens"], self._target), given["features"], step)
        return {}
