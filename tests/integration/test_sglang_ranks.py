"""A learner of two ranks gives each rank of the real SGLang its weights, as it does on the GPUs that they share: here through memory of
the host that they open by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from second_rank import second_rank
from sglang_cases import needs_sglang, on_the_cpu
from sizes import only_with_all

from engine.cluster import devices, learner_rank
from engine.cluster.worker import Worker
from engine.config import load
from engine.models.weights import local
from engine.rollout.sglang.engine import SGLangEngine

pytestmark = [*needs_sglang, only_with_all]
CONFIG: dict[str, Any] = {
    "model": {"path": "tiny"},
    "rollout": {"engine": "sglang", "max_prompt_tokens": 32, "max_new_tokens": 32, "max_batch": 4, "sglang": {"tensor_parallel": 2}},
    "speculation": {"enabled": False},
    "cluster": {"device": "cpu", "workers": 1, "learner": {"parallel": "fsdp"}},
}
OTHER_RANK = """
import sys, torch
from pathlib import Path
from engine.cluster import devices, learner_rank
from engine.cluster.learner_only_rank import LearnerOnlyRank
from engine.config import load
from engine.models.weights import local
giving = devices.giving_ranks
learner_rank.giving_ranks = lambda config, place, device: giving(config, place, torch.device("cuda"))
rank = LearnerOnlyRank(1, load(Path(sys.argv[1])), sys.argv[2])
for times in (2.0, 0.5):
    for weight in rank.policy.weights().values():
        local(weight).mul_(times)
    rank._load_target(1)
"""


@pytest.fixture(params=["fsdp", "ddp"])
def worker(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """The first rank, beside the other one. They give weights as on GPUs, where all of them do."""
    giving = devices.giving_ranks
    monkeypatch.setattr(learner_rank, "giving_ranks", lambda config, place, _: giving(config, place, torch.device("cuda")))
    monkeypatch.setattr(SGLangEngine, "_shares_gpus", property(lambda engine: engine._all_give))
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(CONFIG | {"cluster": CONFIG["cluster"] | {"learner": {"parallel": request.param}}}))
    config = load(path)
    rendezvous = f"file://{tmp_path}/rendezvous"
    with on_the_cpu(2), second_rank(OTHER_RANK, str(path), rendezvous):
        worker = Worker(0, config, rendezvous)
        assert isinstance(worker.engine, SGLangEngine)
        try:
            yield worker
        finally:
            worker.engine.close()


def change(worker: Worker, times: float) -> str:
    """Weights ``times`` as large; what SGLang has of them, by rank."""
    for weight in worker.policy.weights().values():
        local(weight).mul_(times)
    worker._load_target(1)
    return worker.engine.loaded_weights().target


def test_each_rank_of_sglang_opens_the_weights_of_its_own_gpu(worker: Worker) -> None:
    """One half of each weight is taken from either rank, which has put the policy's shards together, or has a replica."""
    seen = [worker.engine.loaded_weights().target, change(worker, 2.0), change(worker, 0.5)]
    first, doubled, again = (target.split(":") for target in seen)
    assert first == again
    assert all(before != after for before, after in zip(first, doubled, strict=True))


@pytest.mark.parametrize("worker", ["ddp"], indirect=True)
def test_a_killed_sglang_is_given_a_replica_by_the_first_rank_alone(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between updates, when the other ranks know nothing of it, and in the middle of a load, through which they go to the end."""
    engine = worker.engine
    assert isinstance(engine, SGLangEngine)
    first, doubled = engine.loaded_weights().target, change(worker, 2.0)
    killed = engine.host
    killed.kill()
    assert engine.loaded_weights().target == doubled
    killed = engine.host

    def ask_the_dead(*_: object, **__: object) -> None:
        killed.kill()
        killed.receive()

    monkeypatch.setattr(killed, "ask", ask_the_dead)
    assert change(worker, 0.5) == first
    assert engine.host.pid != killed.pid
