"""Places for workers in a real Ray."""

from typing import Any

import pytest
from sizes import only_with_all

from engine.cluster.placement import places, room
from engine.cluster.ray_session import ray_session
from engine.config import ClusterConfig, RunConfig, parse
from engine.errors import ConfigError


def config(workers: int, **more: Any) -> RunConfig:
    return parse({"cluster": {"workers": workers, "threads_per_worker": 2, "device": "cpu", "patience": 1.0, **more}})


@only_with_all
def test_all_workers_have_places_or_the_run_says_that_there_are_none() -> None:
    with ray_session(ClusterConfig(workers=2, threads_per_worker=2)):
        import ray

        with pytest.raises(ConfigError, match=r"3 workers with 2 CPU each were asked for; the Ray cluster has 1 machines with 4 CPU"):
            places(config(3), ray)
        with pytest.raises(ConfigError, match=r"were asked for, on 2 machines; .*had no room for 2 within 1 s"):
            places(config(2, nodes=2), ray)
        options = places(config(4, min_workers=1), ray)
        assert [(place["num_cpus"], place["num_gpus"]) for place in options] == [(2, 0), (2, 0)]
        where = ray.remote(lambda: ray.get_runtime_context().get_placement_group_id())
        groups = ray.get([where.options(**place).remote() for place in options])
        assert groups[0] is not None
        assert groups[0] == groups[1]


def test_the_least_plentiful_resource_decides_how_many_a_machine_can_hold() -> None:
    machines = [{"CPU": 9.0, "GPU": 2.0}, {"CPU": 3.0, "GPU": 8.0}, {"CPU": 64.0}]
    assert room(machines, {"CPU": 2.0, "GPU": 1.0}) == 2 + 1
    assert room(machines, {"CPU": 4.0}) == 2 + 0 + 16
