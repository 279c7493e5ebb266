"""Cores of a machine: an update may compute on all of them, for then nobody decodes there."""

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


def crowded(config: RunConfig, device: str, cores: int) -> str:
    """What to say where workers of this machine must share its cores; empty if they need not."""
    cluster = config.cluster
    if device != "cpu" or cluster.ray_address or cluster.workers * cluster.threads_per_worker <= cores:
        return ""
    wanted = f"cluster.workers={cluster.workers} with cluster.threads_per_worker={cluster.threads_per_worker}"
    return f"{wanted} need more cores than the {cores} here: they wait for each other, and learn less in the same time; lower one of them"


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
