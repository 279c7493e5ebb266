"""Whether training has the memory of the engine's cache between rollouts."""

from typing import Protocol

import torch

from engine.config import RolloutConfig

GROWTH = 2.0
"""Of what training has needed at most: what must be free for the next one. Rows differ in length from step to step."""


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
        unused = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
        return torch.cuda.mem_get_info(self._device)[0] + unused

    def used(self) -> int:
        return torch.cuda.memory_allocated(self._device)

    def most_used(self) -> int:
        return torch.cuda.max_memory_allocated(self._device)

    def forget(self) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)


class CacheLending:
    """The cache is lent for the first update, and from then on where ``GROWTH`` times what updates needed is not free beside it. One that
    stays keeps its graphs, whose capture takes longer than many a rollout's steps: a second for thirty of them."""

    def __init__(self, cache: Cache, memory: DeviceMemory | None) -> None:
        """Without ``memory`` it is always lent."""
        self._cache, self._memory = cache, memory
        self._lent = False
        self._before = 0
        self._needed: int | None = None

    def rollout_begins(self) -> None:
        if self._lent:
            self._cache.resume()
        self._lent = False

    def rollout_ended(self) -> None:
        if self._needed is None or self._memory is None or self._memory.free() < GROWTH * self._needed:
            self._cache.release()
            self._lent = True
        if self._memory:
            self._before = self._memory.used()
            self._memory.forget()

    def updated(self) -> None:
        """The policy was, for the last time before the next rollout: all that trains has had its memory."""
        if self._memory:
            self._needed = max(self._needed or 0, self._memory.most_used() - self._before)


def cache_lending(cache: Cache, rollout: RolloutConfig, device: torch.device) -> CacheLending | None:
    """None where the cache stays what it is. The native engine's takes all that is left of a GPU; on a CPU it takes what is written.
    SGLang's graphs outlast a release."""
    if rollout.engine == "sglang":
        return CacheLending(cache, None) if rollout.sglang.release_memory else None
    return CacheLending(cache, GpuMemory(device)) if device.type == "cuda" else None
