"""Where a rank of the learner computes, and how the ranks of a run find each other."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

from engine.config import RunConfig
from engine.rollout.sglang.host_process import START_SECONDS


def device_of(config: RunConfig) -> torch.device:
    """The configured one; by default the GPU that Ray gave this rank, if there is any."""
    if config.cluster.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(config.cluster.device)


def join(config: RunConfig, place: int, rendezvous: str, device: torch.device) -> dist.ProcessGroup | None:
    """The group of all ranks, who meet at ``rendezvous``, a torch.distributed init method; None if a single one needs no group.

    With GPUs it has gloo beside nccl: what is on the host is exchanged there.
    """
    ranks = config.cluster.workers * config.rollout.gpus
    if ranks == 1 and config.cluster.learner.parallel == "ddp":
        return None
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=rendezvous, rank=place, world_size=ranks)
    return dist.group.WORLD


def giving_ranks(config: RunConfig, place: int, device: torch.device) -> dist.ProcessGroup | None:
    """The ranks of this one's worker, who talk on the host, if each gives SGLang the policy on its own GPU; None if the first one gives it
    to all."""
    gpus = config.rollout.gpus
    if gpus == 1 or device.type != "cuda":
        return None
    patience = timedelta(seconds=2 * START_SECONDS)  # the first one starts SGLang while the others wait
    firsts = range(0, dist.get_world_size(), gpus)
    groups = [dist.new_group(range(first, first + gpus), timeout=patience, backend="gloo") for first in firsts]
    group: dist.ProcessGroup = groups[place // gpus]
    return group


def show_gpus(ranks: int, place: int, device: torch.device) -> None:
    """Lets what this process starts from now on (SGLang) see the GPUs of all ``ranks`` of its worker: Ray shows each rank its own alone.
    For this process CUDA has looked already."""
    if ranks == 1 or device.type != "cuda":
        return
    own: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(own, os.environ["CUDA_VISIBLE_DEVICES"])
    first = place - place % ranks
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(own[first : first + ranks])
