"""The configured policy of a worker."""

from pathlib import Path

import torch
import torch.distributed as dist

from engine.config import RunConfig
from engine.models.load import load_model
from engine.policy.training.policy import Policy
from engine.policy.training.replicated_policy import ReplicatedPolicy
from engine.policy.training.sharded_policy import ShardedPolicy


def build_policy(config: RunConfig, folder: Path, device: torch.device, group: dist.ProcessGroup | None) -> Policy:
    """Starts from the model in ``folder``. ``group`` are all workers; None for a single one that holds the whole policy."""
    learner, reference = config.cluster.learner, config.algorithm.kl_coefficient > 0
    temperature, seed = config.rollout.temperature, config.seed
    if learner.parallel == "ddp":
        return ReplicatedPolicy(load_model(folder, torch.float32), learner, temperature, device, group, reference, seed)
    assert group is not None, "shards need a group, even of one worker"
    return ShardedPolicy(folder, learner, temperature, device, group, reference, seed)
