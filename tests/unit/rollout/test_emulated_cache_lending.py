"""What a cache that is not lent keeps, on an emulated GPU."""

from typing import Any

import pytest
import torch
from checked_graphs import emulated
from native_cases import chains, make_engine, make_guessable, make_requests, make_target

from engine.bench.emulated_cuda.memory import CUDA
from engine.cluster.cache_lending import CacheLending, GpuMemory
from engine.rollout.interface import Sampling
from engine.rollout.native.graphs.pool import CudaRecorder


def test_graphs_outlast_updates_beside_a_cache_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """New weights of target and drafter come into them, and responses are those of plain decoding."""
    captured: list[object] = []
    record = CudaRecorder.record

    def counted(*given: Any) -> Any:
        captured.append(None)
        return record(*given)

    monkeypatch.setattr(CudaRecorder, "record", counted)
    target = make_target(tie_word_embeddings=False)
    drafter, requests, sampling = make_guessable(target), make_requests(3, 48), Sampling(max_new_tokens=12, seed=1)
    weights = [{name: weight * (1 + version / 100) for name, weight in target.state_dict().items()} for version in range(4)]
    plain, expected = make_engine(target, slots=4), []
    for version, each in enumerate(weights):
        plain.load_target(each, version)
        expected.append([completion.tokens for completion in plain.generate(requests, sampling)])
    found, counts = [], []
    with emulated():
        engine = make_engine(target, drafter, chains(3), slots=4, device=CUDA)
        lending = CacheLending(engine, GpuMemory(CUDA))
        for version, each in enumerate(weights):
            engine.load_target(each, version)
            engine.load_drafter({name: weight * (1 + version / 50) for name, weight in drafter.items()}, version)
            lending.rollout_begins()
            found.append([completion.tokens for completion in engine.generate(requests, sampling)])
            lending.rollout_ended()
            lending.updated(1)
            counts.append(len(captured))
            captured.clear()
    assert min(counts[:2]) > 0
    assert counts[2:] == [0, 0]
    assert found == expected


def test_what_a_gpu_has_and_had() -> None:
    with emulated():
        memory = GpuMemory(CUDA)
        free, used = memory.free(), memory.used()
        kept = torch.zeros(2**20, device=CUDA)
        memory.forget()
        passing = torch.zeros(2**21, device=CUDA)
        del passing
        assert free - memory.free() == memory.used() - used == kept.nbytes
        assert memory.most_used() - memory.used() == 2**23
        memory.forget()
        assert memory.most_used() == memory.used()
