"""Places for the workers in the Ray cluster, all at once: a run that does not fit says so instead of waiting with half of its workers."""

from typing import Any

from engine.config import RunConfig
from engine.errors import ConfigError

PATIENCE = 300.0
"""Seconds that a cluster may take to make room, such as by starting machines."""


def places(config: RunConfig, ray: Any, patience: float = PATIENCE) -> list[dict[str, Any]]:
    """The options of each worker's actor. A worker's GPUs are on one machine; workers fill one machine after the other.

    ConfigError if the cluster has no room for all of them.
    """
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    cpus = config.cluster.threads_per_worker
    gpus = config.rollout.gpus if config.cluster.device != "cpu" and ray.cluster_resources().get("GPU") else 0
    bundle = {"CPU": cpus, "GPU": gpus} if gpus else {"CPU": cpus}
    workers = range(config.cluster.workers)
    group = placement_group([bundle] * len(workers), strategy="PACK")
    ready, _ = ray.wait([group.ready()], timeout=patience)
    if not ready:
        remove_placement_group(group)
        raise ConfigError(
            f"cluster.workers: the Ray cluster ({ray.cluster_resources()}) has no room for {len(workers)} workers with {bundle} each; "
            "lower cluster.workers, cluster.threads_per_worker or rollout.sglang.tensor_parallel, or add machines"
        )
    return [
        {
            "num_cpus": cpus,
            "num_gpus": gpus,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank),
        }
        for rank in workers
    ]
