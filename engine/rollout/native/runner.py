"""Runs target and drafter for the requests in the slots of the cache: prefill, draft, verify."""

from functools import partial

import torch
from torch import Tensor
from transformers import PretrainedConfig

from engine.rollout.native.architecture import Architecture, Rotary
from engine.rollout.native.kv_cache import KVCache
from engine.rollout.native.model import Drafter, Target
from engine.rollout.native.sampling import Law
from engine.rollout.native.scheduler import Response

TOKENS_PER_PASS = 2048


class Runner:
    """Between calls, tokens are known at positions below a request's ``length``; keys, values and features below ``length`` - 1."""

    def __init__(self, config: PretrainedConfig, like: Tensor, drafting: bool) -> None:
        """Empty weights on ``like``'s device, in its data type. ModelError if the model is not supported."""
        architecture = Architecture.of(config)
        self.target = Target(architecture, like)
        self.drafter = Drafter(architecture, like) if drafting else None
        self._make_cache = partial(KVCache, architecture, Rotary(config, like), like, drafting)
        self._size = (0, 0)
        self.cache = self._make_cache(0, 0)
        self._device = like.device

    def reserve(self, slots: int, capacity: int) -> None:
        """Makes a cache of ``slots`` requests with ``capacity`` positions, unless there is one as large."""
        if slots > self.cache.slots or capacity > self.cache.capacity:
            self._size = max(slots, self._size[0]), max(capacity, self._size[1])
            self.resume()

    def release(self) -> None:
        """Frees the cache's memory."""
        self.cache = self._make_cache(0, 0)

    def resume(self) -> None:
        """Makes an empty cache of the last size."""
        self.release()
        self.cache = self._make_cache(*self._size)

    def prefill(self, slots: range, prompts: list[tuple[int, ...]]) -> None:
        """Writes prompts into their slots and runs all but their last token through the target, padded to the longest."""
        for slot, prompt in zip(slots, prompts, strict=True):
            self.cache.write(slot, prompt)
        length = max(map(len, prompts), default=1) - 1
        requests = max(1, TOKENS_PER_PASS // max(length, 1))
        for first in slots[::requests]:
            for start in range(0, length, TOKENS_PER_PASS):
                stop = min(length, start + TOKENS_PER_PASS)
                positions = self.cache.positions[start:stop].expand(min(requests, slots.stop - first), -1)
                self._forward(self.cache.tokens[self.cache.index(positions, first)], positions, stop, first)

    def decode(self, batch: list[Response], law: Law, depth: int) -> list[tuple[list[int], list[float]]]:
        """One step of all slots: for each request the accepted drafts (at most ``depth``) and the target's own token, with the
        target's log-probabilities. The tokens are what the target draws; drafts only decide how many of them a step yields.
        """
        newest = torch.tensor([[response.length - 1] for response in batch], device=self._device)
        requests = torch.tensor([response.request.id for response in batch], device=self._device)
        reach = max(response.length for response in batch) + depth
        positions = newest + self.cache.positions[: depth + 1]
        index = self.cache.index(positions)
        noise = law.noise(requests, positions + 1)
        tokens = self.cache.tokens[index[:, :1]]
        if depth:
            tokens = torch.cat((tokens, self._draft(batch, newest, reach, law, noise[:, :-1])), 1)
        logits = self.target.logits(self._forward(tokens, positions, reach))
        drawn, logprobs = law.sample(logits.view(*tokens.shape, -1), noise)
        self.cache.tokens[index + 1] = drawn
        accepted = (drawn[:, :-1] == tokens[:, 1:]).long().cumprod(1).sum(1, keepdim=True)
        results = []
        for drafts, *row in torch.cat((accepted, drawn, logprobs), 1).tolist():  # one transfer; float32 holds token ids exactly
            count = int(drafts) + 1
            results.append(([int(token) for token in row[:count]], row[depth + 1 : depth + 1 + count]))
        return results

    def _forward(self, tokens: Tensor, positions: Tensor, reach: int, first: int = 0) -> Tensor:
        step = self.cache.plan(positions, reach, first)
        features = self.target.features(tokens.flatten(), step)
        if self.drafter:
            self.cache.features.index_copy_(0, step.index, features)
        return features

    def _draft(self, batch: list[Response], newest: Tensor, reach: int, law: Law, noise: Tensor) -> Tensor:
        """Drafts [n, depth] for ``noise`` [n, depth, vocabulary]. The drafter's entries from the newest position on are rewritten
        by the next ``_catch_up``, because they rest on predicted features."""
        assert self.drafter
        depth = noise.shape[1]
        feature = self._catch_up(self.drafter, batch, newest, reach)
        drafts = [law.guess(self.target.logits(feature), noise[:, 0])]
        if depth > 1:
            ahead = self.cache.plan(newest + self.cache.positions[: depth - 1], reach)
        for i in range(depth - 1):
            feature = self.drafter.features(self.target.embed(drafts[-1]), feature, ahead.column(i))
            drafts.append(law.guess(self.target.logits(feature), noise[:, i + 1]))
        return torch.stack(drafts, 1)

    def _catch_up(self, drafter: Drafter, batch: list[Response], newest: Tensor, reach: int) -> Tensor:
        """Shows the drafter all that the target has seen since its last step; returns its prediction [n, hidden] of the newest
        token's feature. Positions end at the same column; requests that are less far behind repeat some, to no effect."""
        behind = max(response.length - 1 - response.drafted for response in batch)
        positions = (newest - behind + self.cache.positions[:behind]).clamp_min_(0)
        for part in torch.split(positions, max(1, TOKENS_PER_PASS // len(batch)), 1):
            index = self.cache.index(part).flatten()
            embedded = self.target.embed(self.cache.tokens[index + 1])
            features = drafter.features(embedded, self.cache.features[index], self.cache.plan(part, reach))
        for response in batch:
            response.drafted = response.length - 1
        return features.view(len(batch), -1, features.shape[-1])[:, -1]
