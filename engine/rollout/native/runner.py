"""Runs target and drafter for the requests in the slots of the cache: prefill, draft, verify."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PretrainedConfig

from engine.drafter.kind import DrafterKind, captured_layers, feature_width
from engine.drafter.layout import DrafterLayout
from engine.drafter.model import drafter_config
from engine.rollout.native.architecture import Architecture, Rotary
from engine.rollout.native.attention import part_length
from engine.rollout.native.decode_step import DecodeBatch, Drawn, Step
from engine.rollout.native.draft_tree import NO_DRAFT, DraftTree, widened, with_given_drafts
from engine.rollout.native.drafting import Drafting, scratch
from engine.rollout.native.eagle3_draft_model import Eagle3DraftModel
from engine.rollout.native.forward_passes import ForwardPasses
from engine.rollout.native.graphs.plan import GraphPlan
from engine.rollout.native.graphs.pool import Recorder
from engine.rollout.native.graphs.step_memory import Widths, noise_rows, step_memory
from engine.rollout.native.kv_cache import KVCache
from engine.rollout.native.layout.factory import make_pages
from engine.rollout.native.layout.slots import Slots
from engine.rollout.native.linear import activations
from engine.rollout.native.model import DraftModel, TargetModel
from engine.rollout.native.noise import Noise
from engine.rollout.native.placement import Placement
from engine.rollout.native.reach import LANES, whole_reach
from engine.rollout.native.sampling import TokenSampler
from engine.rollout.native.sending import sent
from engine.rollout.native.tree_entries import placed
from engine.rollout.response import Response
from engine.speculation.speculator import StepPlan

TOKENS_PER_PASS, ON_A_CPU = 2048, 256
"""Of prompts, which are padded to the longest of a pass. What a CPU computes of more falls out of its cache."""
MOST_NODES = 256
"""Tokens of a request that the target is shown in a graph."""
WORTH_LEAVING_OUT = 0.85
DRAFTERS: dict[DrafterKind, type[DraftModel]] = {"eagle": DraftModel, "eagle3": Eagle3DraftModel}

T = TypeVar("T")


class Runner:
    """Between calls, tokens are known at positions below a request's ``length``; keys, values and features below ``length`` - 1."""

    def __init__(
        self,
        config: PretrainedConfig,
        like: Tensor,
        drafting: bool,
        plan: GraphPlan | None = None,
        recorder: Recorder | None = None,
        kind: DrafterKind = "eagle",
        cache_tokens: int | None = None,
    ) -> None:
        """Empty weights on ``like``'s device, in its data type. ModelError if the model is not supported. ``plan`` has the steps that
        run as graphs of ``recorder``, see ForwardPasses. ``kind`` is that of the drafter, if it is to have one. ``cache_tokens``: as of
        RolloutConfig."""
        architecture = Architecture.of(config)
        self.target = TargetModel(architecture, like, captured_layers(kind, architecture.layers) if drafting else ())
        layout = DrafterLayout(kind)
        self._make_drafter = partial(DRAFTERS[kind], Architecture.of(drafter_config(layout, config)), like)
        self.drafter = self._make_drafter(layout) if drafting else None
        width = feature_width(kind, architecture.hidden) if drafting else 0
        computed = activations(like)
        self._config, self._computed = config, computed
        self._drafter_rotary = self._rotary_of(layout) if drafting else None
        self._cache_of = partial(KVCache, architecture, Rotary(config, computed), like=computed, width=width)
        self._reads_pages, self.cache_tokens = plan is not None or like.is_cuda, cache_tokens
        keys_and_values = 2 * architecture.kv_heads * architecture.head_dim * (architecture.layers + drafting)
        self._position = computed.itemsize * (keys_and_values + width)
        self._widths = _widths(architecture, computed)
        self._beside = step_memory(plan or GraphPlan.of_engine(None, 1), self._widths)
        self._size, self._room_for_one = (0, 0), False
        self._device, self.dtype = like.device, like.dtype
        self.cache = self._make_cache(0, 0)
        self._recorder, self._vocabulary = recorder, architecture.vocabulary
        self._noise: Tensor | None = None
        self._chain = torch.ones(MOST_NODES, MOST_NODES, dtype=torch.bool, device=like.device).tril_()
        self.plan_graphs(plan)

    @property
    def device_name(self) -> str:
        return torch.cuda.get_device_name(self._device) if self._device.type == "cuda" else "cpu"

    def load_target(self, weights: Mapping[str, Tensor]) -> None:
        """ModelError: see ``copy_weights``."""
        self.target.load(weights)
        if self.drafter:
            self.drafter.follow(self.target)

    def load_drafter(self, weights: Mapping[str, Tensor]) -> None:
        """Of any layout of its kind. ModelError, and nothing changed, if they do not fit; see ``DraftModel.load``."""
        assert self.drafter
        layout = DrafterLayout.of(weights)
        drafter = self.drafter if layout == self.drafter.layout else self._make_drafter(layout)
        drafter.load(weights)
        drafter.follow(self.target)
        if drafter is not self.drafter:
            self.drafter, self._drafter_rotary = drafter, self._rotary_of(layout)
            self.cache.use_drafter_rotary(self._drafter_rotary)
            self.passes.use_drafter(drafter)

    def _rotary_of(self, layout: DrafterLayout) -> Rotary:
        return Rotary(drafter_config(layout, self._config), self._computed)

    def plan_graphs(self, plan: GraphPlan | None) -> None:
        """Graphs of other steps from now on."""
        self._noise = None
        self.passes = ForwardPasses(self.target, self.drafter, self.cache, plan, self._recorder)

    def reserve(self, slots: int, capacity: int, room_for_one: bool = False) -> None:
        """Makes a cache of ``slots`` requests with ``capacity`` positions, unless there is one as large. ``room_for_one``: until
        ``forget`` one of them fits, whatever ``cache_tokens`` says."""
        slots, self._room_for_one = self.passes.batch(slots), self._room_for_one or room_for_one
        if slots > self.cache.slots or capacity > self.cache.capacity:
            self._size = max(slots, self._size[0]), max(capacity, self._size[1])
            self.resume()

    def _make_cache(self, slots: int, capacity: int) -> KVCache:
        capacity = whole_reach(capacity, LANES, LANES if self._reads_pages else part_length())
        if self._reads_pages or self.cache_tokens is not None:
            limit = max(self.cache_tokens, capacity) if self.cache_tokens and self._room_for_one else self.cache_tokens
            pages = make_pages(slots, capacity, self._computed, self._position, limit, self._beside)
            return self._cache_of(self._drafter_rotary, layout=pages, capacity=capacity, reads_pages=self._reads_pages)
        return self._cache_of(self._drafter_rotary, layout=Slots(slots, capacity, self._device), capacity=capacity)

    def release(self) -> None:
        """Frees the memory of the cache and the graphs."""
        self._use(self._make_cache(0, 0))

    def resume(self) -> None:
        """Makes an empty cache of the last size."""
        self.release()
        self._use(self._make_cache(*self._size))

    def _use(self, cache: KVCache) -> None:
        self.cache, self._noise = cache, None
        self.passes.use(cache)

    def _noise_memory(self) -> Tensor | None:
        """Where the graphs of drafts put noise, for as many requests as the cache has slots; a graph's own memory other graphs use, too."""
        if self._noise is None and (plan := self.passes.plan):
            rows = noise_rows(each for each in plan.draft if each.batch <= self.cache.slots)
            self._noise = torch.empty(rows, self._vocabulary, device=self._device)
        return self._noise

    def forget(self) -> None:
        """Frees the cache's memory for good: ``resume`` makes none."""
        self._size, self._room_for_one = (0, 0), False
        self.release()

    def prefill(self, slots: range, prompts: list[tuple[int, ...]]) -> None:
        """Writes prompts, or whatever is known, into their slots; all but the last token go through the target, padded to the longest of
        those that go together."""
        for slot, prompt in zip(slots, prompts, strict=True):
            self.cache.write(slot, prompt)
        self.cache.layout.settle()
        lengths = [len(prompt) - 1 for prompt in prompts]
        tokens_per_pass = ON_A_CPU if self._device.type == "cpu" else TOKENS_PER_PASS
        requests = max(1, tokens_per_pass // max([1, *lengths]))
        for first in range(0, len(lengths), requests):
            together = lengths[first : first + requests]
            for start in range(0, max(together), tokens_per_pass):
                stop = min(max(together), start + tokens_per_pass)
                positions = self.cache.positions[start:stop].expand(len(together), -1)
                tokens = self.cache.tokens[self.cache.index(positions, slots[first])].flatten().clamp_min_(0)  # a tree leaves -1 behind
                self.passes.prefill(tokens, Placement(positions, stop, slots[first]))

    def decode(self, batch: Sequence[Response], sampler: TokenSampler, plan: StepPlan) -> list[Drawn]:
        """One step of all slots. The tokens are what the target draws; drafts only decide how many of them a step yields. OutOfPagesError
        if there is no room for what is drafted."""
        return self.begin(batch, sampler, plan).read()

    def begin(self, batch: Sequence[Response], sampler: TokenSampler, plan: StepPlan, after: Step | None = None) -> Step:
        """As ``decode``, but that a GPU is not waited for. ``after``: a step of the batch that has begun, and whose tokens are not in its
        responses yet. No drafts are ``given`` behind such a one: nobody can know them.

        The last request is repeated up to the batch size of a graph. What is computed again goes to free slots."""
        size = self.passes.batch(len(batch))
        if after and after.caught_up:
            for response in batch:
                response.drafted = response.length - 1
        beyond = self._beyond(plan, size) + (after.most if after else 0)
        self.cache.make_room([response.length + beyond for response in batch])
        if size > len(batch):
            plan = replace(plan, given=_repeated(plan.given, size))
        step = self._decode(after.following() if after else self._sent(batch, size), sampler, plan)
        step.caught_up = plan.shape is not None
        return step

    def _sent(self, batch: Sequence[Response], size: int) -> DecodeBatch:
        padded = _repeated(batch, size)
        lengths, requests = sent([[response.length for response in padded], [response.id for response in padded]], self._device)
        return DecodeBatch(padded, len(batch), lengths[:, None] - 1, requests)

    def _beyond(self, plan: StepPlan, size: int) -> int:
        """Positions behind the known tokens that a step writes to, at most."""
        given = max((len(drafts) for drafts in plan.given or () if drafts), default=0)
        return self.passes.tokens(size, 1 + max(given, scratch(plan.shape, self._device) if plan.shape else 0))

    def _decode(self, batch: DecodeBatch, sampler: TokenSampler, plan: StepPlan) -> Step:
        shape, given = plan.shape, plan.given
        levels = max([shape.depth if shape else 0, *(len(drafts) for drafts in given or () if drafts)])
        memory = self._noise_memory() if shape and sampler.keeps_noise else None
        noise = sampler.noise(batch.requests, batch.newest + 1 + self.cache.positions[: levels + 1], memory)
        drafting = Drafting(self.passes, self.cache, batch.responses, batch.newest, batch.unread)
        learned = drafting.drafts(shape, sampler, noise) if shape else None
        tree = with_given_drafts(learned, given, self._device) if given else learned
        if tree is None or not tree.tokens.shape[1]:
            return self._plain(batch, sampler, noise)
        tree = widened(tree, self.passes.tokens(len(batch.responses), tree.tokens.shape[1] + 1) - 1)
        return self._verify(batch, tree, sampler, noise)

    def _plain(self, batch: DecodeBatch, sampler: TokenSampler, noise: Noise) -> Step:
        newest, reaches = batch.newest, batch.lengths
        known, new = self.cache.index(newest + self.cache.positions[:2]).unbind(1)
        logits = self.passes.verify(self.cache.tokens[known], Placement(newest, max(reaches), reaches=reaches))
        drawn, logprobs = sampler.sample(logits, noise.level(0))
        self.cache.tokens[new] = drawn
        return Step(batch, torch.stack((drawn, logprobs), 1))

    def _verify(self, batch: DecodeBatch, tree: DraftTree, sampler: TokenSampler, noise: Noise) -> Step:
        """Runs the newest tokens and their drafts through the target, and keeps the path that it draws."""
        newest = batch.newest
        n, nodes = tree.tokens.shape[0], tree.tokens.shape[1] + 1
        offsets, furthest = self.cache.positions[:nodes].expand(n, -1), nodes - 1
        if tree.parents is not None and not self.cache.reads_pages:
            tree, offsets = placed(tree, newest[:, 0].tolist())
            furthest = int(offsets.max())
        reaches = [length + furthest for length in batch.lengths]
        levels = self.cache.positions[:nodes].expand(n, -1) if tree.levels is None else pad(tree.levels, (1, 0))
        rows = self._present(tree)
        ancestors = None if tree.parents is None else tree.ancestors()
        at = Placement(newest + levels, max(reaches), rows=rows, reaches=reaches)
        if ancestors is not None:
            at = replace(at, paths=ancestors, entries=None if self.cache.reads_pages else newest + offsets)
        elif self.passes.plan:  # there is one graph for trees and chains
            at = replace(at, paths=self._chain[:nodes, :nodes].expand(n, -1, -1))
        near = self.cache.index(newest + self.cache.positions[: max(nodes, furthest) + 1])
        tokens = torch.cat((self.cache.tokens[near[:, :1]], tree.tokens), 1).clamp_min_(0).flatten()
        noise_rows = (levels.clamp(max=noise.levels - 1) + self.cache.slots_from_0[:n] * noise.levels).flatten()
        if rows is not None:
            tokens, noise_rows = tokens[rows], noise_rows[rows]
        logits = self.passes.verify(tokens, at)
        drawn, logprobs = sampler.sample(logits, noise.rows(noise_rows))
        drawn, logprobs = (_spread(each, rows, n, nodes) for each in (drawn, logprobs))
        return self._keep(batch, near, tree, offsets, ancestors, drawn, logprobs)

    def _keep(
        self,
        batch: DecodeBatch,
        near: Tensor,
        tree: DraftTree,
        offsets: Tensor,
        ancestors: Tensor | None,
        drawn: Tensor,
        logprobs: Tensor,
    ) -> Step:
        """Puts the accepted drafts, each request's a path in the order of its nodes, behind the newest token. ``near`` [n, positions] are
        the rows of the cache from that on."""
        accepted = tree.accepted(drawn, ancestors)
        counts = accepted.sum(1)
        if ancestors is not None:
            path = pad(accepted.byte().sort(dim=1, descending=True, stable=True).indices[:, : self._longest(tree, counts)] + 1, (1, 0))
            self._move(near, offsets.gather(1, path), counts)
            drawn, logprobs = drawn.gather(1, path), logprobs.gather(1, path)
        self.cache.tokens[near[:, 1 : 1 + drawn.shape[1]]] = drawn
        # One transfer; float32 holds token ids exactly.
        return Step(batch, torch.cat((tree.depths[:, None], counts[:, None], drawn, logprobs), 1), counts)

    def _longest(self, tree: DraftTree, counts: Tensor) -> int:
        """What no request has more drafts accepted of than; a GPU is not asked."""
        return tree.deepest if counts.is_cuda else int(counts.max())

    def _move(self, near: Tensor, sources: Tensor, counts: Tensor) -> None:
        """Accepted drafts, ``counts`` [n] of them, from ``sources`` [n, L] behind the newest token to the places that follow it. On a GPU,
        which is not asked which these are, the others stay where they are."""
        places = self.cache.positions[: sources.shape[1]]
        needed = (sources != places) & (places <= counts[:, None])
        targets = near[:, : sources.shape[1]]
        if needed.is_cuda:
            self.cache.move(near.gather(1, torch.where(needed, sources, places)).flatten(), targets.flatten())
        else:
            which = needed.nonzero(as_tuple=True)
            self.cache.move(near.gather(1, sources)[which], targets[which])

    def _present(self, tree: DraftTree) -> Tensor | None:
        """The rows of nodes that exist, if leaving the others out pays."""
        if tree.complete or self.passes.plan is not None:
            return None
        present = pad(tree.tokens >= 0, (1, 0), value=True).flatten().nonzero()[:, 0]
        return present if len(present) < WORTH_LEAVING_OUT * tree.tokens.numel() else None


def _widths(architecture: Architecture, computed: Tensor) -> Widths:
    """A GPU computes all experts of a mixture."""
    a, experts = architecture, architecture.experts
    mixture = experts.number * (3 * experts.intermediate + a.hidden) if experts else 0
    return Widths(a.vocabulary, a.hidden, max(3 * a.intermediate, mixture), computed.itemsize)


def _repeated(each: Sequence[T] | None, size: int) -> list[T]:
    """Up to ``size`` by repeating the last; empty if there is nothing."""
    return [*each, *[each[-1]] * (size - len(each))] if each else []


def _spread(values: Tensor, rows: Tensor | None, n: int, nodes: int) -> Tensor:
    """[R] to [n, nodes]; -1 where there is no row."""
    if rows is None:
        return values.view(n, nodes)
    return values.new_full((n * nodes,), NO_DRAFT).index_copy_(0, rows, values).view(n, nodes)
