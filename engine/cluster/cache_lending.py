"""Whether training has the memory of the engine's cache between rollouts."""

import math
from typing import Protocol

import torch

from engine.config import RolloutConfig

GROWTH = 2.0
"""Of what training may need by its rows: what must be free for it. Free blocks may not fit, and a drafter may be trained anew."""


class Cache(Protocol):
    """Of a rollout engine; see RolloutEngine."""

    def release(self) -> None: ...
    def resume(self) -> None: ...


class DeviceMemory(Protocol):
    """Of a GPU, in bytes."""

    def free(self) -> int:
        """What this process can still take."""
        ...

    def used(self) -> int:
        """What its tensors have."""
        ...

    def most_used(self) -> int:
        """What they had at most since ``forget``."""
        ...

    def forget(self) -> None: ...


class GpuMemory:
    """A DeviceMemory, as torch counts it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def free(self) -> int:
        """Of what torch keeps, none: a part belongs to graphs, and nobody else can take that."""
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(self._device)[0]

    def used(self) -> int:
        return torch.cuda.memory_allocated(self._device)

    def most_used(self) -> int:
        return torch.cuda.max_memory_allocated(self._device)

    def forget(self) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)


class CacheLending:
    """The cache is lent until an update has had rows that teach, and from then on where ``GROWTH`` times what the longest rows may need is
    not free beside it. One that stays keeps its graphs, each of which takes some 40 ms to record."""

    def __init__(self, cache: Cache, memory: DeviceMemory | None, largest: int = 1) -> None:
        """Without ``memory`` it is always lent. ``largest``: tokens of the largest micro-batch that there may be."""
        self._cache, self._memory, self._largest = cache, memory, largest
        self._lent = False
        self._before = self._needed = self._longest = 0
        self._counts = False

    def rollout_begins(self) -> None:
        self._count()
        if self._lent:
            self._cache.resume()
        self._lent = False

    def rollout_ended(self) -> None:
        if self._memory is None or self._memory.free() < self._may_need():
            self._cache.release()
            self._lent = True
        if self._memory:
            self._before, self._counts = self._memory.used(), True
            self._memory.forget()

    def updated(self, longest: int) -> None:
        """The policy was. ``longest``: tokens of the longest row that had a gradient; 0 if none had."""
        self._longest = max(self._longest, longest)

    def _count(self) -> None:
        """What was taken since the last rollout: by an update, or by a drafter that was trained or judged."""
        if self._memory and self._counts:
            self._needed = max(self._needed, self._memory.most_used() - self._before)

    def _may_need(self) -> float:
        """By the longest row so far, as what a pass keeps grows with its tokens: a row is never cut."""
        return GROWTH * self._needed * max(1.0, self._largest / self._longest) if self._longest else math.inf


def cache_lending(cache: Cache, rollout: RolloutConfig, device: torch.device, microbatch: int) -> CacheLending | None:
    """None where the cache stays what it is. The native engine's takes all that is left of a GPU; on a CPU it takes what is written.
    SGLang's graphs outlast a release. ``microbatch``: the tokens of one, unless a row has more."""
    if rollout.engine == "sglang":
        return CacheLending(cache, None) if rollout.sglang.release_memory else None
    largest = max(microbatch, rollout.max_prompt_tokens + rollout.max_new_tokens)
    return CacheLending(cache, GpuMemory(device), largest) if device.type == "cuda" else None
