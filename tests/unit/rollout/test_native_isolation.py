"""What must stay as it was: weights when others are loaded, slots and suffix drafts when a rollout ends or breaks off."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any

import pytest
import torch
from native_cases import (
    NGRAMS,
    TREES,
    RandomTuner,
    make_engine,
    make_requests,
    make_target,
    random_drafter,
    strategies,
    with_random_tuner,
)
from torch import Tensor
from transformers import PreTrainedModel

from engine.errors import ModelError
from engine.rollout.interface import Completion, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.rollout.native.linear import Linear

SHAPES = ((7, 1, 7), *((tree.depth, tree.top_k, tree.verify) for tree in TREES))
SHORT = Sampling(max_new_tokens=3)


def tensors(part: Any) -> list[Tensor]:
    """All that an object of the engine holds; of packed copies, what they make of an input."""
    if isinstance(part, Tensor):
        return [part]
    if isinstance(part, Linear):
        return [part.weight, *([] if part.bias is None else [part.bias]), part(torch.eye(part.weight.shape[1]))]
    if isinstance(part, list | tuple):
        return [tensor for each in part for tensor in tensors(each)]
    if type(part).__module__.startswith("engine."):
        return [tensor for each in vars(part).values() for tensor in tensors(each)]
    return []


def checksum(part: Any) -> str:
    digest = sha256()
    for tensor in tensors(part):
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def changed(weights: Mapping[str, Tensor], by: float) -> dict[str, Tensor]:
    return {name: weight + by for name, weight in weights.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_loads_of_one_model_leave_the_other_as_it_was(family: str, dtype: torch.dtype) -> None:
    """A hundred of each, with refused ones and rollouts between."""
    model = make_target(family)
    drafter = random_drafter(model)
    engine = make_engine(model, drafter, strategies(*SHAPES), dtype=dtype)
    runner = engine._runner
    loads: list[tuple[Callable[[Mapping[str, Tensor], int], None], dict[str, Tensor], Any, Any]] = [
        (engine.load_drafter, drafter, runner.drafter, runner.target),
        (engine.load_target, dict(model.state_dict()), runner.target, runner.drafter),
    ]
    for load, weights, loaded, other in loads:
        assert sum(tensor.numel() for tensor in tensors(other)) > 40_000
        before, own = checksum(other), {checksum(loaded)}
        for version in range(1, 101):
            load(changed(weights, version / 1000), version)
            own.add(checksum(loaded))
            if version % 10 == 0:
                engine.generate(make_requests(3, 48), SHORT)
                with pytest.raises(ModelError):
                    load(dict(islice(weights.items(), 2)), version)
                assert checksum(loaded) in own
            assert checksum(other) == before
        assert len(own) == 101


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_checksum_covers_every_weight_and_its_packed_copy(dtype: torch.dtype) -> None:
    target = make_engine(make_target("qwen3"), dtype=dtype)._runner.target
    sums = {checksum(target)}
    for tensor in {tensor.data_ptr(): tensor for tensor in tensors(target)}.values():  # some have two names
        tensor.view(-1)[-1] += 1
        sums.add(checksum(target))
    stored = 5 + 2 * (4 + 4 * 3)  # embedding, head and a norm; of each layer four matrices and norms; a norm has three
    assert len(sums) == 1 + stored
    for linear in (target._head, target._layers[0]._output):
        before = checksum(target)
        linear.pack()
        assert checksum(target) != before


def make_stopping() -> tuple[PreTrainedModel, NativeEngine]:
    model = make_target(tie_word_embeddings=False)
    engine = make_engine(model, random_drafter(model), strategies(*SHAPES, suffix=True), slots=5, end_tokens=frozenset(range(4)))
    with_random_tuner(engine, RandomTuner(7, more=(*TREES, *NGRAMS)))
    return model, engine


def assert_nothing_runs(engine: NativeEngine) -> None:
    assert engine._scheduler.unfinished == 0
    assert engine._scheduler.running == []
    assert not engine._scheduler.waiting
    assert engine.speculator
    assert engine.speculator._wait == {}
    store = engine.speculator._store
    assert store
    assert store._requests == {}
    assert store._active == {}
    assert store._idle, "what was written stays"


def test_a_rollout_ends_with_all_slots_free_and_nobody_drafted_for() -> None:
    _, engine = make_stopping()
    size = None
    for seed in range(3):
        engine.generate(make_requests(17, 48, group=3, seed=seed), Sampling(max_new_tokens=25, seed=seed))
        assert_nothing_runs(engine)
        assert size in (None, engine._runner._size)
        size = engine._runner._size


@pytest.mark.parametrize("survived", [0, 4, 11])
def test_so_it_does_after_one_that_broke_off(survived: int) -> None:
    model, engine = make_stopping()
    requests, sampling = make_requests(17, 48, group=3), Sampling(max_new_tokens=25)
    seen: list[Completion] = []

    def fail(completion: Completion) -> None:
        if len(seen) == survived:
            raise KeyError("mine")
        seen.append(completion)

    with pytest.raises(KeyError, match="mine"):
        engine.generate(requests, sampling, fail)
    assert 0 < engine._scheduler.unfinished <= 17 - survived, "the one of which it was told is still in its slot"
    again = engine.generate(requests, sampling)
    assert_nothing_runs(engine)
    plain = make_engine(model, slots=5, end_tokens=frozenset(range(4))).generate(requests, sampling)
    assert [completion.tokens for completion in again] == [completion.tokens for completion in plain]
    assert {completion.request.id: completion.tokens for completion in seen}.items() <= {c.request.id: c.tokens for c in plain}.items()
