"""An update may compute on all cores of its machine: then nobody decodes there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from engine.config import RunConfig

QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Of a container: microseconds of computing, of all cores together, in so many microseconds; or max."""


def update_threads(config: RunConfig, cores: int) -> int:
    """Of each rank. On machines of others, and beside generation, as many as it decodes with."""
    cluster = config.cluster
    if cluster.learner.threads:
        return cluster.learner.threads
    if cluster.ray_address or config.rollout.scheduling.asynchronous:
        return cluster.threads_per_worker
    return max(cluster.threads_per_worker, cores // (cluster.workers * config.rollout.gpus))


def usable_cores(quota: Path = QUOTA) -> int:
    """That this process may use at a time."""
    cores = len(os.sched_getaffinity(0))
    allowed, _, period = quota.read_text(encoding="ascii").partition(" ") if quota.is_file() else ("max", "", "")
    return cores if allowed == "max" else max(1, min(cores, int(allowed) // int(period)))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """``count`` threads compute in the block, and as many as before after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
