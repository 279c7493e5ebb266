"""The engine's way through CUDA, on a GPU that is emulated: it generates what the CPU's plain engine does, and nothing on the way would
fail on a GPU. What a GPU's own arithmetic does to near ties is not seen here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from checked_graphs import emulated
from native_cases import (
    NGRAMS,
    TREES,
    Kept,
    RandomTuner,
    chains,
    make_engine,
    make_guessable,
    make_requests,
    make_target,
    random_drafter,
    strategies,
    with_random_tuner,
)
from sizes import first
from torch import Tensor
from transformers import PreTrainedModel

from engine.bench.emulated_cuda.memory import CUDA
from engine.config import SpeculationConfig
from engine.drafter.kind import DrafterKind
from engine.drafter.vocabulary import D2T, offsets
from engine.models.device_to_host import HostCopy
from engine.rollout.interface import Completion, PartialResponse, Request, Sampling
from engine.speculation.strategy import Strategy

SAMPLED, NUCLEUS = Sampling(max_new_tokens=16, seed=1), Sampling(0.8, 0.9, max_new_tokens=20, seed=1)
GREEDY = Sampling(temperature=0, max_new_tokens=16)
REQUESTS = make_requests(4, 48, group=2)
ENDS = frozenset({5, 6})


@dataclass(frozen=True)
class Arm:
    speculation: SpeculationConfig | None
    sampling: Sampling = SAMPLED
    kind: DrafterKind = "eagle"


ARMS = {
    "plain": Arm(None),
    "chain with suffix drafts": Arm(chains(4, suffix=True)),
    "tree": Arm(strategies((4, 3, 8))),
    "EAGLE-3 tree": Arm(strategies((3, 2, 5)), kind="eagle3"),
    "top-p": Arm(strategies((3, 2, 5)), NUCLEUS),
    "chain": Arm(chains(4)),
    "greedy tree": Arm(strategies((5, 2, 7)), GREEDY),
    "EAGLE-3 chain": Arm(chains(3), kind="eagle3"),
    "top-p chain": Arm(chains(3), NUCLEUS),
    "greedy": Arm(None, GREEDY),
}


def outcome(completions: Sequence[Completion]) -> list[tuple[tuple[int, ...], str]]:
    return [(completion.tokens, completion.finish) for completion in completions]


def drafter_of(target: PreTrainedModel, kind: DrafterKind = "eagle") -> dict[str, Tensor]:
    """Good guesses, or for EAGLE-3 any."""
    guessable = make_guessable(target)
    return guessable if kind == "eagle" else random_drafter(target, kind=kind)


def check(ours: Sequence[Completion], expected: Sequence[Completion]) -> None:
    assert outcome(ours) == outcome(expected)
    for one, other in zip(ours, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


@pytest.mark.parametrize("name", first(5, list(ARMS)))
def test_every_strategy_generates_what_the_cpu_does_plainly(name: str) -> None:
    arm, target = ARMS[name], make_target(tie_word_embeddings=False)
    drafter = drafter_of(target, arm.kind)
    expected = make_engine(target, slots=2, end_tokens=ENDS).generate(REQUESTS, arm.sampling)
    with emulated() as device:
        weights = drafter if arm.speculation else None
        engine = make_engine(target, weights, arm.speculation, slots=2, end_tokens=ENDS, device=CUDA, drafter_kind=arm.kind)
        check(engine.generate(REQUESTS, arm.sampling), expected)
        assert device.replays > engine.statistics.decode_steps - 1
        assert bool(engine.statistics.accepted_by_position and engine.statistics.accepted_by_position[0]) == bool(arm.speculation)


@pytest.mark.parametrize("family", first(0, ["gemma3_text", "qwen3_moe", "phi3", "mistral"]))
def test_other_families_have_no_fault_of_the_host_s_either(family: str) -> None:
    target = make_target(family, tie_word_embeddings=False)
    drafter = random_drafter(target)
    expected = make_engine(target, slots=2).generate(REQUESTS, GREEDY)
    with emulated():
        engine = make_engine(target, drafter, strategies((3, 2, 5)), slots=2, device=CUDA)
        check(engine.generate(REQUESTS, GREEDY), expected)


def test_weights_come_and_memory_goes_between_rollouts() -> None:
    """New weights of target and drafter, one of another layout, memory lent and given back, a larger rollout; and the strategy changes at
    random at every step."""
    target = make_target(tie_word_embeddings=False)
    drafter, fewer = drafter_of(target), {D2T: offsets(torch.arange(0, 48, 2))}
    shapes = SpeculationConfig.model_validate(strategies((3, 1, 3), (3, 2, 5), suffix=True).model_dump() | {"tuner": {"name": "goodput"}})
    weights = [{name: weight * (1 + version / 100) for name, weight in target.state_dict().items()} for version in range(3)]
    rollouts = [(make_requests(n, 48, group=2), Sampling(max_new_tokens=limit, seed=limit)) for n, limit in ((2, 8), (4, 14), (3, 9))]
    plain, expected = make_engine(target, slots=2, end_tokens=ENDS), []
    for version, rollout in enumerate(rollouts):
        plain.load_target(weights[version], version)
        expected.append(plain.generate(*rollout))
    with emulated():
        engine = make_engine(target, drafter, shapes, slots=2, end_tokens=ENDS, device=CUDA)
        with_random_tuner(engine, RandomTuner(0, more=(Strategy("eagle", 3, 1, 3), Strategy("eagle", 3, 2, 5), *NGRAMS)))
        for version, (requests, sampling) in enumerate(rollouts):
            engine.load_target(weights[version], version)
            engine.load_drafter(drafter | (fewer if version == 1 else {}), version)
            features = Kept()
            check(engine.generate(requests, sampling, keep=features.keep), expected[version])
            assert {id: rows.device.type for id, rows in features.items()} == {each.id: "cpu" for each in requests}
            assert engine.loaded_weights().drafter_version == version
            engine.release()
            if version == 1:
                engine.resume()


def test_features_leave_the_gpu_without_a_wait_of_the_decode_loop() -> None:
    """The GPU is waited for once for each response, when somebody reads them."""
    target = make_target(tie_word_embeddings=False)
    drafter, waits = drafter_of(target), list[int]()
    for keeps in (False, True):
        kept = list[HostCopy]()

        def keep(_: Completion, copy: HostCopy, kept: list[HostCopy] = kept) -> None:
            kept.append(copy)

        with emulated() as device:
            engine = make_engine(target, drafter, chains(4), slots=2, end_tokens=ENDS, device=CUDA)
            engine.generate(REQUESTS, SAMPLED, keep=keep if keeps else None)
            waits.append(device.syncs.total())
            device.forget()
            assert all(len(copy.take()) for copy in kept)
            assert all(each.startswith("synchronize") for each in device.syncs)
            assert device.syncs.total() == len(kept)
    assert len(kept) == len(REQUESTS)
    assert waits[0] == waits[1]


def going_on(completion: Completion) -> Request:
    return replace(completion.request, begun=PartialResponse(completion.tokens, completion.logprobs, completion.spans))


def test_responses_go_on_where_an_earlier_rollout_left_them() -> None:
    target = make_target(tie_word_embeddings=False)
    drafter = drafter_of(target)
    expected = make_engine(target, slots=2).generate(REQUESTS, SAMPLED)
    with emulated():
        engine = make_engine(target, drafter, strategies((3, 2, 5)), slots=2, device=CUDA)
        with_random_tuner(engine, RandomTuner(3, more=TREES[:2]))
        begun = engine.generate(REQUESTS, SAMPLED, lambda _: engine.abort())
        assert any(completion.tokens and completion.finish == "abort" for completion in begun)
        left = [going_on(completion) for completion in begun if completion.finish == "abort"]
        done = {each.request.id: each for each in (*begun, *engine.generate(left, SAMPLED))}
    check([replace(done[request.id], request=request) for request in REQUESTS], expected)
