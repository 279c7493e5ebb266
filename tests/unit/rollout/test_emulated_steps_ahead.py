"""A GPU has its next decode step before the host reads the last one, wherever that one decides nothing about it. On the emulated device."""

from collections.abc import Sequence

import pytest
import torch
from checked_graphs import emulated
from native_cases import (
    NGRAMS,
    TREES,
    RandomTuner,
    chains,
    make_engine,
    make_requests,
    make_target,
    strategies,
    with_random_tuner,
)
from test_emulated_engine import ENDS, REQUESTS, SAMPLED, check, drafter_of

from engine.bench.emulated_cuda.device import EmulatedCuda
from engine.bench.emulated_cuda.memory import CUDA
from engine.config import SpeculationConfig
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.decode_step import DecodeBatch, Drawn, Step
from engine.rollout.native.engine import NativeEngine
from engine.rollout.native.runner import Runner
from engine.rollout.native.sampling import TokenSampler
from engine.rollout.response import Response
from engine.speculation.speculator import Speculator, StepPlan

SPECULATIONS = {"chain": chains(4), "tree": strategies((4, 3, 8))}


class Order:
    """When steps begin and are read, and which begin behind one that is not read yet."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        begin, read = Runner.begin, Step.read

        def began(runner: Runner, batch: Sequence[Response], sampler: TokenSampler, plan: StepPlan, after: Step | None = None) -> Step:
            self.seen.append("ahead" if after else "begin")
            return begin(runner, batch, sampler, plan, after)

        def has_read(step: Step) -> list[Drawn]:
            self.seen.append("read")
            return read(step)

        patch.setattr(Runner, "begin", began)
        patch.setattr(Step, "read", has_read)


def test_a_gpu_has_the_next_step_before_the_last_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the last one of a response, which its limit tells. The host waits once a step."""
    target, order = make_target(tie_word_embeddings=False), Order(monkeypatch)
    sampling = Sampling(max_new_tokens=5, seed=1)
    expected = make_engine(target, slots=2).generate(REQUESTS[:2], sampling)
    assert order.seen == ["begin", "read"] * 5, "a CPU does one thing after the other"
    order.seen.clear()
    with emulated() as device:
        engine = make_engine(target, slots=2, device=CUDA)
        engine.generate(REQUESTS[:2], sampling)
        device.forget()
        order.seen.clear()
        check(engine.generate(REQUESTS[:2], sampling), expected)
        assert order.seen == ["begin", *["ahead", "read"] * 4, "read"]
        waits = [count for place, count in device.syncs.items() if place.startswith("synchronize")]
        assert (waits, device.syncs.total()) == ([5], 6), "the other one is the seed's"


def test_what_ends_a_response_is_seen_a_step_late_and_nothing_comes_of_it() -> None:
    """Requests of unequal length end by themselves, and take each other's slots."""
    target = make_target(tie_word_embeddings=False)
    sampling, requests = Sampling(max_new_tokens=24, seed=3), make_requests(7, 48)
    expected = make_engine(target, slots=3, end_tokens=ENDS).generate(requests, sampling)
    assert {each.finish for each in expected} == {"stop", "length"}
    with emulated():
        engine = make_engine(target, slots=3, end_tokens=ENDS, device=CUDA)
        check(engine.generate(requests, sampling), expected)
    assert engine.statistics.tokens == sum(len(each.tokens) for each in expected)


def test_a_step_ahead_has_room_or_waits_for_it() -> None:
    """Two of three requests begin; when one needs its third page there is none, and the other one waits again."""
    target, sampling = make_target(tie_word_embeddings=False), Sampling(max_new_tokens=72, seed=3)
    requests = [Request(number, number, (3 + number, *range(3, 46), *range(3, 19))) for number in range(3)]
    expected = make_engine(target, slots=3).generate(requests, sampling)
    with emulated():
        engine = make_engine(target, slots=3, device=CUDA, cache_tokens=256)
        check(engine.generate(requests, sampling), expected)
    assert engine.statistics.preemptions


def test_who_speculates_in_small_batches_goes_ahead_in_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    target, order = make_target(tie_word_embeddings=False), Order(monkeypatch)
    drafter = drafter_of(target)
    sampling = Sampling(max_new_tokens=40, seed=1)
    expected = make_engine(target, slots=4, end_tokens=ENDS).generate(REQUESTS, sampling)
    speculation = chains(4).model_copy(update={"threshold": 2, "hysteresis": 0.0})
    with emulated():
        engine = make_engine(target, drafter, speculation, slots=4, end_tokens=ENDS, device=CUDA)
        check(engine.generate(REQUESTS, sampling), expected)
        assert "ahead" in order.seen
        assert engine.statistics.accepted_by_position[0] > 0


def test_an_abort_ends_it_after_the_steps_that_have_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    target, read = make_target(tie_word_embeddings=False), Step.read
    expected = make_engine(target, slots=2).generate(REQUESTS[:2], SAMPLED)
    with emulated():
        engine, reads = make_engine(target, slots=2, device=CUDA), list[int]()

        def abort_at_third(step: Step) -> list[Drawn]:
            reads.append(len(reads))
            if len(reads) == 3:
                engine.abort()
            return read(step)

        monkeypatch.setattr(Step, "read", abort_at_third)
        done = engine.generate(REQUESTS[:2], SAMPLED)
    assert [each.finish for each in done] == ["abort", "abort"]
    assert [each.tokens for each in done] == [each.tokens[:4] for each in expected]


def test_where_a_step_ahead_begins() -> None:
    """Behind what was accepted. A repetition of the last request begins where that does: there it has room, whatever it has accepted."""
    known = DecodeBatch([], 2, torch.tensor([[4], [9], [9]]), torch.tensor([0, 1, 1]))
    step = Step(known, torch.zeros(3, 2 + 2 * 4), torch.tensor([2, 0, 3]))
    assert (step.following().newest.tolist(), step.most) == ([[7], [10], [10]], 4)
    plain = Step(step.following(), torch.zeros(3, 2))
    assert (plain.following().newest.tolist(), plain.most, plain.following().unread) == ([[8], [11], [11]], 1, 1)


def waits_of(device: EmulatedCuda) -> int:
    return sum(count for place, count in device.syncs.items() if place.startswith("synchronize"))


@pytest.mark.parametrize("name", SPECULATIONS)
def test_drafts_go_ahead_as_far_as_no_response_may_end(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It costs no wait, and as many drafts are accepted as if the host had known where each step begins: 3 requests are padded to 4."""
    target, order = make_target(tie_word_embeddings=False), Order(monkeypatch)
    drafter, sampling, requests = drafter_of(target), Sampling(max_new_tokens=12, seed=1), REQUESTS[:3]
    expected = make_engine(target, slots=4).generate(requests, sampling)
    accepted, waits = [], []
    for goes_on in (None, lambda *_: False):
        if goes_on:
            monkeypatch.setattr(NativeEngine, "_goes_on", goes_on)
        with emulated() as device:
            engine = make_engine(target, drafter, SPECULATIONS[name], slots=4, device=CUDA)
            engine.generate(requests, sampling)
            engine.take_statistics()
            device.forget()
            order.seen.clear()
            check(engine.generate(requests, sampling), expected)
            assert ("ahead" in order.seen) == (goes_on is None)
            if goes_on is None:
                assert order.seen[:5] == ["begin", "ahead", "read", "ahead", "read"]
            accepted.append(engine.statistics.accepted_by_position)
            waits.append((waits_of(device), engine.statistics.decode_steps))
    assert accepted[0] == accepted[1]
    assert accepted[0][1] > 0
    assert waits == [(steps, steps) for _, steps in waits]


def test_strategies_change_from_one_step_to_the_one_ahead_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    target, order = make_target(tie_word_embeddings=False), Order(monkeypatch)
    drafter, requests = drafter_of(target), make_requests(6, 48, group=3)
    sampling = Sampling(max_new_tokens=32, seed=3)
    expected = make_engine(target, slots=3, end_tokens=ENDS).generate(requests, sampling)
    with emulated():
        engine = make_engine(target, drafter, strategies((5, 3, 9), suffix=True), slots=3, end_tokens=ENDS, device=CUDA)
        tuner = with_random_tuner(engine, RandomTuner(3, more=(*TREES, *NGRAMS)))
        check(engine.generate(requests, sampling), expected)
    assert order.seen.count("ahead") > len(tuner.steps) / 3
    assert len({strategy for strategy, _ in tuner.steps}) > 6
    assert any(sum(accepted) for _, accepted in tuner.steps)


def test_drafts_ahead_have_room_or_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    target, order = make_target(tie_word_embeddings=False), Order(monkeypatch)
    drafter, sampling = drafter_of(target), Sampling(max_new_tokens=32, seed=3)
    requests = [Request(number, number, (3 + number, *range(3, 12))) for number in range(3)]
    expected = make_engine(target, slots=3).generate(requests, sampling)
    monkeypatch.setattr("engine.rollout.native.layout.factory.PAGE", 16)
    with emulated():
        engine = make_engine(target, drafter, chains(4), slots=3, device=CUDA, cache_tokens=64, max_prompt_tokens=16, max_new_tokens=32)
        check(engine.generate(requests, sampling), expected)
    assert engine.statistics.preemptions
    assert "ahead" in order.seen


@pytest.mark.parametrize(("host", "gpu"), [(5, 3), (3, 5)])
def test_a_step_takes_as_long_as_the_slower_of_host_and_gpu(monkeypatch: pytest.MonkeyPatch, host: int, gpu: int) -> None:
    """But for the last one, behind which nothing begins. The times of all are what passes: nothing is told twice or of another step."""
    now, done = 0.0, dict[int, float]()
    begin, read = Runner.begin, Step.read

    def began(runner: Runner, batch: Sequence[Response], sampler: TokenSampler, plan: StepPlan, after: Step | None = None) -> Step:
        nonlocal now
        now += host
        step = begin(runner, batch, sampler, plan, after)
        done[id(step)] = max(now, done[id(after)] if after else 0.0) + gpu
        return step

    def has_read(step: Step) -> list[Drawn]:
        nonlocal now
        now = max(now, done[id(step)])
        return read(step)

    target = make_target(tie_word_embeddings=False)
    with emulated():
        too_many = chains(4).model_copy(update={"threshold": 1, "hysteresis": 0.0})
        engine = make_engine(target, drafter_of(target), too_many, slots=2, device=CUDA)
        assert engine.speculator
        seconds = list[float]()
        monkeypatch.setattr(engine.speculator, "record", lambda *told: seconds.append(told[-1]))
        monkeypatch.setattr(engine, "_clock", lambda: now)
        monkeypatch.setattr(Runner, "begin", began)
        monkeypatch.setattr(Step, "read", has_read)
        engine.generate(REQUESTS[:2], Sampling(max_new_tokens=4, seed=1))
    assert seconds == [max(host, gpu)] * 3 + [host + gpu]
    assert sum(seconds) == now


def test_a_step_takes_as_long_as_its_plan_does_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look texts up takes the host's time, while a GPU waits."""
    now, taken, plan, record = [0.0], list[float](), Speculator.plan, Speculator.record

    def planned(speculator: Speculator, batch: Sequence[Response], learned: bool) -> StepPlan:
        now[0] += 1.0
        return plan(speculator, batch, learned)

    def recorded(speculator: Speculator, plan: StepPlan, accepted: Sequence[int], kept: Sequence[int], elapsed: float) -> None:
        taken.append(elapsed)
        record(speculator, plan, accepted, kept, elapsed)

    monkeypatch.setattr(Speculator, "plan", planned)
    monkeypatch.setattr(Speculator, "record", recorded)
    target = make_target(tie_word_embeddings=False)
    ngram = {"strategies": [{"drafter": "ngram", "depth": 4, "verify": 4}], "tuner": {"name": "fixed"}}
    with emulated():
        engine = make_engine(target, drafter_of(target), SpeculationConfig.model_validate(ngram), slots=2, device=CUDA)
        engine._clock = lambda: now[0]
        engine.generate(REQUESTS[:2], SAMPLED)
    assert taken
    assert set(taken) == {1.0}
