"""What the further GPUs of a worker must do when it does something: shards are put together by all of them at once."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from engine.cluster import learner_only_rank
from engine.cluster.devices import giving_ranks
from engine.cluster.learner_only_rank import LearnerOnlyRank
from engine.cluster.worker_group import WorkerGroup
from engine.config import parse
from engine.pretraining.pretraining_round import PretrainingRound
from engine.rollout.interface import Request, Sampling
from engine.rollout.sglang import weight_transfer
from engine.rollout.sglang.host_process import START_SECONDS


class Remote:
    """In place of the Ray actor of a worker, or of ``rank``: what it is asked for is counted, and done at once."""

    def __init__(self, rank: LearnerOnlyRank | None = None) -> None:
        self.asked: Counter[str] = Counter()
        self._rank = rank

    def __getattr__(self, method: str) -> Any:
        def remote(*arguments: Any) -> Any:
            self.asked[method] += 1
            if self._rank:
                return getattr(self._rank, method)(*arguments)
            return PretrainingRound(len(arguments[1]), 0, 0.0) if method == "pretrain" else None

        return SimpleNamespace(remote=remote)


@pytest.fixture
def rank(random_model: Path, tmp_path: Path) -> Iterator[LearnerOnlyRank]:
    learner = {"workers": 1, "device": "cpu", "learner": {"parallel": "fsdp"}}
    config = parse({"model": {"path": str(random_model)}, "rollout": {"max_prompt_tokens": 16, "max_new_tokens": 16}, "cluster": learner})
    yield LearnerOnlyRank(0, config, f"file://{tmp_path}/rendezvous")
    dist.destroy_process_group()


def test_it_takes_part_in_a_pretraining(rank: LearnerOnlyRank) -> None:
    passes: Counter[str] = Counter()
    rank.policy.model.base_model.register_forward_hook(lambda *_: passes.update(["pass"]))
    group, worker, other = WorkerGroup.__new__(WorkerGroup), Remote(), Remote(rank)
    group._actors, group._ranks, group._ray = [worker], [worker, other], SimpleNamespace(get=list)
    shares = group.pretrain(0, [Request(0, 0, (1, 2))], Sampling(), None, 0.0)
    assert shares == [PretrainingRound(1, 0, 0.0)]
    assert passes["pass"] == 1, "a pass without a row, beside the worker's"
    group._versions = SimpleNamespace(resumed=lambda *_: None)  # type: ignore[assignment]
    group.load_pretraining(Path(), None, 1)
    assert other.asked == {"pretrain": 1, "load_pretraining": 1}


CUDA, SEVERAL = torch.device("cuda"), {"engine": "sglang", "sglang": {"tensor_parallel": 2}}


@pytest.mark.parametrize(("rollout", "device"), [({"engine": "sglang"}, CUDA), (SEVERAL, torch.device("cpu"))], ids=["one GPU", "no GPU"])
def test_the_first_rank_alone_gives_weights_where_it_can_or_must(rollout: Any, device: torch.device) -> None:
    config = parse({"rollout": rollout, "cluster": {"workers": 1}})
    assert giving_ranks(config, 0, device) is None


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_each_of_several_gpus_gives_weights(parallel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of shards, and of replicas, too."""
    made = list[list[int]]()

    def new_group(ranks: range, timeout: timedelta, backend: str) -> tuple[list[int], str]:
        assert timeout.total_seconds() > START_SECONDS, "SGLang starts while the others wait"
        made.append([*ranks])
        return made[-1], backend

    monkeypatch.setattr(dist, "get_world_size", lambda: 4)
    monkeypatch.setattr(dist, "new_group", new_group)
    config = parse({"rollout": SEVERAL, "cluster": {"workers": 2, "learner": {"parallel": parallel}}})
    found: Any = giving_ranks(config, 3, CUDA)
    assert found == ([2, 3], "gloo")
    assert made == [[0, 1], [2, 3]], "all ranks make all groups"


def test_a_rank_that_gives_weights_fills_all_buckets(rank: LearnerOnlyRank, monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[str] = []

    def on_device(*arguments: Any) -> Iterator[Any]:
        for bucket, last, handles in weight_transfer.on_device(*arguments):
            filled.extend(span.name for span in bucket.tensors)
            yield bucket, last, handles

    monkeypatch.setattr(learner_only_rank, "on_device", on_device)
    rank._load_target(1)
    assert not filled
    rank._giving = dist.group.WORLD
    rank._load_target(2)
    assert filled == list(rank.policy.weights())
