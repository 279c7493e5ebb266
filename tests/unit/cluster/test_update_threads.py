"""How many threads an update has: all that nobody else needs."""

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.cluster.update_threads import crowded, threads, update_threads, usable_cores
from engine.config import RunConfig


def of(cores: int, rollout: dict[str, Any] | None = None, learner: dict[str, Any] | None = None, **cluster: Any) -> int:
    return update_threads(RunConfig.model_validate({"cluster": cluster | {"learner": learner or {}}, "rollout": rollout or {}}), cores)


def test_workers_share_out_the_cores_of_their_machine() -> None:
    assert of(16, workers=2) == 8
    assert of(5, workers=2) == 2
    assert of(2, workers=2) == 1
    assert of(2, workers=4) == 1
    assert of(8, workers=2, threads_per_worker=6) == 6, "no fewer than it decodes with"


def test_what_is_set_holds() -> None:
    assert of(16, learner={"threads": 3}, workers=2) == 3


def test_what_others_may_need_is_left_to_them() -> None:
    assert of(16, workers=1, ray_address="10.0.0.1:6379") == 1
    assert of(16, {"scheduling": {"asynchronous": True}}, workers=1) == 1


def test_who_has_more_workers_than_cores_is_told() -> None:
    four = RunConfig.model_validate({"cluster": {"workers": 2, "threads_per_worker": 2}})
    assert crowded(four, "cpu", 4) == ""
    assert "cluster.workers=2 with cluster.threads_per_worker=2 need more cores than the 3 here" in crowded(four, "cpu", 3)
    assert crowded(four, "NVIDIA H200", 3) == ""


@pytest.mark.parametrize(("quota", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None)])
def test_a_container_may_use_what_it_is_allowed(tmp_path: Path, quota: str, cores: int | None) -> None:
    unlimited = usable_cores(tmp_path / "missing")
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert usable_cores(tmp_path / "cpu.max") == (cores or unlimited)


def test_afterwards_there_are_as_many_as_before() -> None:
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
