"""Places for workers in a real Ray."""

import pytest

from engine.cluster.placement import places
from engine.cluster.ray_session import ray_session
from engine.config import ClusterConfig, RunConfig, parse
from engine.errors import ConfigError


def config(workers: int) -> RunConfig:
    return parse({"cluster": {"workers": workers, "threads_per_worker": 2, "device": "cpu"}})


def test_all_workers_have_places_or_the_run_says_that_there_are_none() -> None:
    with ray_session(ClusterConfig(workers=2, threads_per_worker=2)):
        import ray

        with pytest.raises(ConfigError, match=r"has no room for 3 workers with \{'CPU': 2\} each"):
            places(config(3), ray, patience=1.0)
        options = places(config(2), ray, patience=30.0)
        assert [(place["num_cpus"], place["num_gpus"]) for place in options] == [(2, 0), (2, 0)]
        where = ray.remote(lambda: ray.get_runtime_context().get_placement_group_id())
        groups = ray.get([where.options(**place).remote() for place in options])
        assert groups[0] is not None
        assert groups[0] == groups[1]
