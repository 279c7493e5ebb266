"""Places for the workers in the Ray cluster, all at once: a run that does not fit says so instead of waiting with half of its workers."""

from collections.abc import Iterable
from typing import Any

from engine.config import ClusterConfig, RunConfig
from engine.errors import ConfigError, LongtailError

LOOK_SECONDS = 3.0
"""What a placement may take that should fit."""
Resources = dict[str, float]


def places(config: RunConfig, ray: Any, unfit: type[LongtailError] = ConfigError) -> list[dict[str, Any]]:
    """For each worker the options that its actors share, which are as many as it has ranks of the learner: all are on one machine.
    Workers fill one machine after the other, or ``cluster.nodes`` of them evenly.

    Fewer than ``cluster.workers`` if the cluster has had no room for all for ``cluster.patience`` seconds, but at least
    ``cluster.min_workers``; ``unfit`` if there is no room for those.
    """
    cluster = config.cluster
    awaited = cluster.device == "cuda" and cluster.ray_address is not None
    gpus = awaited or (cluster.device != "cpu" and ray.cluster_resources().get("GPU"))  # otherwise only where there are any
    rank = {"CPU": float(cluster.threads_per_worker)} | ({"GPU": 1.0} if gpus else {})
    needs = {name: amount * config.rollout.gpus for name, amount in rank.items()}
    found = _reserved(ray, cluster.workers, cluster.nodes, needs, cluster.patience)
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    able = [machine for machine in machines if room([machine], needs)]
    nodes = cluster.nodes and min(cluster.nodes, len(able))
    for workers in range(min(cluster.workers - 1, room(able, needs)), cluster.least_workers - 1, -1):
        found = found or _reserved(ray, workers, nodes, needs, LOOK_SECONDS)
    if not found:
        raise unfit(_no_room(cluster, needs, machines))
    return [{"num_cpus": rank["CPU"], "num_gpus": rank.get("GPU", 0), "scheduling_strategy": place} for place in found]


def room(machines: Iterable[Resources], needs: Resources) -> int:
    """How many workers the machines can hold if nobody else uses them."""
    return sum(int(min(machine.get(name, 0.0) / amount for name, amount in needs.items())) for machine in machines)


def _reserved(ray: Any, workers: int, nodes: int | None, needs: Resources, patience: float) -> list[Any]:
    """Where so many workers are to be, or nothing if there is no room for them within ``patience`` seconds."""
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    parts = min(nodes or workers, workers)  # bundles of resources: one for each worker, or for a machine's share of them
    bundles = [workers // parts + (index < workers % parts) for index in range(parts)]
    strategy = "STRICT_SPREAD" if nodes else "PACK"
    group = placement_group([{name: amount * count for name, amount in needs.items()} for count in bundles], strategy=strategy)
    if not ray.wait([group.ready()], timeout=patience)[0]:
        remove_placement_group(group)
        return []
    shares = [PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index) for index in range(len(bundles))]
    return [share for share, count in zip(shares, bundles, strict=True) for _ in range(count)]


def _no_room(cluster: ClusterConfig, needs: Resources, machines: list[Resources]) -> str:
    spread = f", on {cluster.nodes} machines" if cluster.nodes else ""
    there = "; ".join(", ".join(f"{machine.get(name, 0):g} {name}" for name in needs) for machine in machines)
    wanted = ", ".join(f"{amount:g} {name}" for name, amount in needs.items())
    return (
        f"cluster.workers: {cluster.workers} workers with {wanted} each were asked for{spread}; the Ray cluster has {len(machines)} "
        f"machines with {there}, and had no room for {cluster.least_workers} within {cluster.patience:g} s. Lower cluster.workers, "
        "cluster.nodes, cluster.threads_per_worker or rollout.sglang.tensor_parallel, add machines, or wait until others have finished"
        + (", or set cluster.device to cpu" if "GPU" in needs else "")
    )
