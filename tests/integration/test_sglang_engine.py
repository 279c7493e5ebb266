"""The real SGLang, on a CPU with a stand-in for its kernels, behind the contract of every rollout engine."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from sglang_cases import (
    accept_length,
    chains,
    native_engine,
    needs_sglang,
    random_drafter,
    sglang_engine,
    shapes,
    trained_eagle3,
    weights_of,
)
from sizes import only_with_all
from transformers import PreTrainedModel

from engine.config import RolloutConfig, SGLangConfig
from engine.config.task import CountdownConfig
from engine.drafter.export import load_drafter_folder
from engine.drafter.kind import DrafterKind
from engine.drafter.vocabulary import offsets
from engine.errors import DataError
from engine.models.folder import DRAFTER, TINY
from engine.models.load import end_tokens, load_model, load_tokenizer
from engine.rollout.interface import Completion, Request, Sampling
from engine.rollout.sglang.engine import SGLangEngine
from engine.tasks.countdown import CountdownTask

pytestmark = needs_sglang
ROLLOUT = RolloutConfig(max_batch=16, max_prompt_tokens=32, max_new_tokens=64)
GREEDY = Sampling(temperature=0, max_new_tokens=64)
ARMS = {"eagle d5 k3 v9", "eagle d3 k2 v5", "eagle d2 k1 v2"}


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return load_model(TINY, torch.float32)


@pytest.fixture(scope="module")
def ends(model: PreTrainedModel) -> frozenset[int]:
    return end_tokens(model, load_tokenizer(TINY))


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    """Four responses for each of six prompts of the task that ``tiny`` was made for."""
    prompts = CountdownTask(CountdownConfig(), 0, load_tokenizer(TINY)).prompts(0, 6)
    return [Request(4 * group + member, group, prompt.tokens) for group, prompt in enumerate(prompts) for member in range(4)]


@pytest.fixture(scope="module")
def expected(model: PreTrainedModel, ends: frozenset[int], requests: list[Request]) -> list[Completion]:
    return native_engine(model, ROLLOUT, end_tokens=ends).generate(requests, GREEDY)


@pytest.fixture(scope="module")
def tuned(model: PreTrainedModel, ends: frozenset[int]) -> Iterator[SGLangEngine]:
    """Large trees for up to two requests, small ones for up to eight, short chains for more, and off: at random in half of the steps."""

    speculation = shapes((5, 3, 9), (3, 2, 5), (2, 1, 2), tuner={"name": "beg", "epsilon": 0.5, "thresholds": [1, 3, 9]})
    tokenizer = load_tokenizer(TINY)
    drafter = load_drafter_folder(DRAFTER, model.config)
    more = {"drafter_weights": drafter, "end_tokens": ends, "decode": lambda tokens: str(tokenizer.decode(tokens))}
    with sglang_engine(TINY, model, ROLLOUT, speculation, **more) as engine:
        yield engine


def outcome(completions: list[Completion]) -> list[tuple[tuple[int, ...], str]]:
    return [(completion.tokens, completion.finish) for completion in completions]


def same_logprobs(ours: list[Completion], theirs: list[Completion]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(torch.tensor(one.logprobs), torch.tensor(other.logprobs), atol=1e-4, rtol=0)


def test_plain_greedy_is_native_token_for_token(
    model: PreTrainedModel, ends: frozenset[int], requests: list[Request], expected: list[Completion]
) -> None:
    with sglang_engine(TINY, model, ROLLOUT, end_tokens=ends) as engine:
        completions = engine.generate(requests, GREEDY)
        assert outcome(completions) == outcome(expected)
        same_logprobs(completions, expected)
        statistics = engine.take_statistics()
        assert statistics.tokens == sum(len(completion.tokens) for completion in expected)
        assert (statistics.speculative_tokens, statistics.arms) == (0, [])
        running = [moment.running for moment in statistics.moments[0]]
        assert running == [*range(min(len(requests), ROLLOUT.max_batch), -1, -1)]


def test_speculative_greedy_is_native_token_for_token(tuned: SGLangEngine, requests: list[Request], expected: list[Completion]) -> None:
    seen: list[Completion] = []
    tuned.take_statistics()
    completions = tuned.generate(requests, GREEDY, seen.append)
    assert outcome(completions) == outcome(expected)
    same_logprobs(completions, expected)
    assert sorted(completion.request.id for completion in seen) == [request.id for request in requests]
    assert {completion.finish for completion in completions} == {"stop", "length"}
    for some in (8, 2):
        assert outcome(tuned.generate(requests[:some], GREEDY)) == outcome(expected[:some])
    statistics = tuned.take_statistics()
    assert {arm.strategy for arm in statistics.arms} == ARMS | {"off"}
    assert sum(arm.pulls for arm in statistics.arms) == statistics.decode_steps
    moments = statistics.moments[0]
    assert [moment.time for moment in moments] == sorted(moment.time for moment in moments)
    assert moments[-1][1:] == (0, "off")
    assert {moment.strategy for moment in moments} <= {arm.strategy for arm in statistics.arms}
    assert statistics.drafted_by_position[0] > statistics.drafted_by_position[4] > 0
    assert statistics.accepted_by_position == sorted(statistics.accepted_by_position, reverse=True)
    assert statistics.accepted_by_position[0] > 0
    assert statistics.speculative_requests < statistics.speculative_tokens < statistics.tokens
    report = tuned.host.plugin("graphs")[0]
    assert report["purposes"] == {}, "no CUDA, no graphs"
    assert {name: set(sets.values()) for name, sets in report["strategies"].items()} == {name: {0.0} for name in ARMS | {"off"}}
    assert tuned.describe_graphs() == "SGLang recorded no CUDA graphs"


def test_a_seed_makes_responses_reproducible_and_siblings_differ(tuned: SGLangEngine, requests: list[Request]) -> None:
    first, again = (tuned.generate(requests[:4], Sampling(2.0, max_new_tokens=64, seed=3)) for _ in range(2))
    assert len({completion.tokens for completion in first}) == 4, "at temperature 1 every 40th pair of siblings is equal"
    other = tuned.generate(requests[:4], Sampling(2.0, max_new_tokens=64, seed=4))
    assert all(one.tokens != two.tokens for one, two in zip(first, other, strict=True))
    assert [one.tokens[0] for one in first] == [two.tokens[0] for two in again]


def test_responses_end_at_limits_and_stop_strings(tuned: SGLangEngine, requests: list[Request], expected: list[Completion]) -> None:
    tokenizer = load_tokenizer(TINY)
    text = str(tokenizer.decode(list(expected[0].tokens)))
    stop = text[len(text) // 2 : len(text) // 2 + 3]
    (completion,) = tuned.generate(requests[:1], Sampling(temperature=0, max_new_tokens=64, stop=(stop,)))
    assert completion.finish == "stop"
    assert completion.tokens == expected[0].tokens[: len(completion.tokens)]
    assert stop in str(tokenizer.decode(list(completion.tokens)))
    assert stop not in str(tokenizer.decode(list(completion.tokens[:-1])))
    (completion,) = tuned.generate(requests[:1], Sampling(temperature=0, max_new_tokens=7))
    assert (completion.tokens, completion.finish) == (expected[0].tokens[:7], "length")
    with pytest.raises(DataError, match="max_prompt_tokens allows 1 to 32"):
        tuned.generate([Request(0, 0, tuple(range(3, 36)))], GREEDY)


def test_progress_says_how_far_it_is(tuned: SGLangEngine, requests: list[Request]) -> None:
    seen = []
    tuned.generate(requests[:4], GREEDY, lambda completion: seen.append((completion.request.id, tuned.progress(1.0))))
    finished, progress = seen[0]
    assert progress.time == 1.0
    assert set(progress.remaining) == {0, 1, 2, 3} - {finished}
    assert tuned.progress(2.0).remaining == {}


def measured(engine: SGLangEngine, requests: list[Request]) -> float:
    engine.take_statistics()
    engine.generate(requests, GREEDY)
    return accept_length(engine.take_statistics())


def test_syncs_change_what_they_name_and_acceptance_stays(
    model: PreTrainedModel, ends: frozenset[int], requests: list[Request], expected: list[Completion]
) -> None:
    drafter = load_drafter_folder(DRAFTER, model.config)
    native = native_engine(model, ROLLOUT, chains(4), drafter_weights=drafter, end_tokens=ends)
    native.generate(requests, GREEDY)
    with sglang_engine(TINY, model, ROLLOUT, chains(4), drafter_weights=drafter, end_tokens=ends) as engine:
        start, before = engine.loaded_weights(), measured(engine, requests)
        assert before == pytest.approx(accept_length(native.take_statistics()), rel=0.05)
        engine.load_target(weights_of(model), 1)
        assert (engine.loaded_weights().target, engine.loaded_weights().drafter) == (start.target, start.drafter)
        assert measured(engine, requests) >= 0.95 * before
        other = {name: 1.02 * weight for name, weight in weights_of(model).items()}
        engine.load_target(other, 2)
        moved = engine.loaded_weights()
        assert (moved.target_version, moved.target != start.target, moved.drafter == start.drafter) == (2, True, True)
        engine.load_target(weights_of(model), 3)
        assert engine.loaded_weights().target == start.target
        spoilt = {name: torch.randn_like(weight) * 0.02 for name, weight in drafter.items()}
        engine.load_drafter(spoilt, 1)
        changed = engine.loaded_weights()
        assert (changed.drafter_version, changed.target == start.target, changed.drafter != start.drafter) == (1, True, True)
        assert measured(engine, requests) < 1 + (before - 1) / 2
        assert outcome(engine.generate(requests, GREEDY)) == outcome(expected), "whatever the drafter"
        engine.load_drafter(drafter, 2)
        assert engine.loaded_weights().drafter == start.drafter
        assert measured(engine, requests) >= 0.95 * before
        completions = engine.generate(requests, GREEDY)
        assert outcome(completions) == outcome(expected)
        assert {(each.target_version, each.drafter_version) for each in completions} == {(3, 2)}


def test_memory_is_given_back_and_taken_again(tuned: SGLangEngine, model: PreTrainedModel, requests: list[Request]) -> None:
    """A CPU has no memory saver, so that SGLang only goes through the motions; weights are loaded in between, as in a run."""
    before, held = tuned.generate(requests[:4], GREEDY), tuned.loaded_weights()
    tuned.resume()
    for _ in range(2):
        tuned.release()
        tuned.release()
        tuned.load_target(weights_of(model), held.target_version)
        assert tuned.loaded_weights() == held
        tuned.resume()
        assert outcome(tuned.generate(requests[:4], GREEDY)) == outcome(before)


@only_with_all
def test_an_error_ends_what_still_runs(tuned: SGLangEngine, requests: list[Request], expected: list[Completion]) -> None:
    """Else SGLang would go on with what nobody waits for, and no weights could be loaded meanwhile."""

    def refuse(completion: Completion) -> None:
        raise ValueError(f"response {completion.request.id} is not wanted")

    # So many that a busy machine has long heard of the error when half of them are done.
    many = [replace(request, id=request.id + copy * len(requests)) for copy in range(6) for request in requests]
    tuned.take_statistics()
    assert outcome(tuned.generate(many, GREEDY)) == 6 * outcome(expected)
    whole = tuned.take_statistics().decode_steps
    with pytest.raises(ValueError, match="is not wanted"):
        tuned.generate(many, GREEDY, refuse)
    tuned.host.ask("flush")  # waits until SGLang has nothing to do
    assert tuned.take_statistics().decode_steps < whole / 2
    assert outcome(tuned.generate(requests, GREEDY)) == outcome(expected)


def test_an_eagle3_drafter_drafts_trees_as_in_the_native_engine(
    model: PreTrainedModel, ends: frozenset[int], requests: list[Request], expected: list[Completion]
) -> None:
    drafter = random_drafter(model, kind="eagle3")
    more = {"drafter_weights": drafter, "drafter_kind": "eagle3", "end_tokens": ends}
    native = native_engine(model, ROLLOUT, shapes((3, 2, 6)), **more)
    native.generate(requests, GREEDY)
    with sglang_engine(TINY, model, ROLLOUT, shapes((3, 2, 6)), **more) as engine:
        assert outcome(engine.generate(requests, GREEDY)) == outcome(expected)
        assert accept_length(engine.take_statistics()) == pytest.approx(accept_length(native.take_statistics()), rel=0.05)
        loaded_weights = engine.loaded_weights()
        engine.load_drafter(random_drafter(model, seed=2, kind="eagle3"), 1)
        assert engine.loaded_weights().drafter != loaded_weights.drafter
        assert outcome(engine.generate(requests, GREEDY)) == outcome(expected)


@only_with_all
@pytest.mark.parametrize(("kind", "ranks"), [("eagle3", 1), ("eagle3", 2), ("eagle", 1)])
def test_a_draft_vocabulary_follows_the_target(
    model: PreTrainedModel, requests: list[Request], expected: list[Completion], kind: DrafterKind, ranks: int
) -> None:
    """A target with the same weights but other names of its tokens has other rows of its head where the vocabulary is."""
    rollout = ROLLOUT.model_copy(update={"sglang": SGLangConfig(tensor_parallel=ranks)})
    names = torch.randperm(99, generator=torch.Generator().manual_seed(3))
    places, renamed = names.argsort().tolist(), weights_of(model)
    renamed["model.embed_tokens.weight"] = renamed["model.embed_tokens.weight"][names]
    others = [replace(request, prompt=tuple(places[token] for token in request.prompt)) for request in requests]
    drafter = load_drafter_folder(DRAFTER, model.config) if kind == "eagle" else trained_eagle3(model, expected)
    vocabularies = [torch.arange(99)[torch.arange(99) % 4 != left] for left in (1, 2)]
    some, few = (drafter | {"d2t": offsets(vocabulary)} for vocabulary in vocabularies)
    more: dict[str, Any] = {"drafter_weights": some, "drafter_kind": kind}
    native = native_engine(model, ROLLOUT, chains(3), **more)
    with sglang_engine(TINY, model, rollout, chains(3), **more) as engine:

        def compare(asked: list[Request]) -> None:
            """Mostly the same is accepted as in our engine, and much is."""
            assert outcome(engine.generate(asked, GREEDY)) == outcome(native.generate(asked, GREEDY))
            length = accept_length(native.take_statistics())
            assert length > 1.5
            assert accept_length(engine.take_statistics()) == pytest.approx(length, rel=0.08)

        compare(requests)
        before = engine.loaded_weights()
        for each in (native, engine):
            each.load_target(renamed, 1)
        assert engine.loaded_weights().drafter == before.drafter, "the rows are the target's"
        compare(others)
        for each in (native, engine):
            each.load_drafter(few, 1)
        loaded = engine.loaded_weights()
        assert (loaded.target_version, loaded.drafter_version) == (1, 1)
        compare(others)


def test_ranks_of_a_tensor_parallel_group_decode_alike(
    model: PreTrainedModel, ends: frozenset[int], requests: list[Request], expected: list[Completion]
) -> None:
    """Each rank has a tuner and a clock of its own; if they did not agree on each step, they would wait for each other for ever."""
    rollout = ROLLOUT.model_copy(update={"sglang": SGLangConfig(tensor_parallel=2)})
    drafter = load_drafter_folder(DRAFTER, model.config)
    speculation = chains(3, tuner={"name": "beg", "epsilon": 0.5})
    with sglang_engine(TINY, model, rollout, speculation, drafter_weights=drafter, end_tokens=ends) as engine:
        assert outcome(engine.generate(requests, GREEDY)) == outcome(expected)
        assert {arm.strategy for arm in engine.take_statistics().arms} == {"off", "eagle d3 k1 v3"}
        loaded_weights = engine.loaded_weights()
        assert len(set(loaded_weights.target.split(":"))) == len(set(loaded_weights.drafter.split(":"))) == 2, (
            "each rank holds another half"
        )
        engine.load_target(weights_of(model), 1)
        engine.load_drafter(drafter, 1)
        assert (engine.loaded_weights().target, engine.loaded_weights().drafter) == (loaded_weights.target, loaded_weights.drafter)


@pytest.mark.parametrize("victim", ["scheduler", "host"])
def test_a_killed_sglang_is_replaced_in_mid_rollout(
    tuned: SGLangEngine, model: PreTrainedModel, requests: list[Request], expected: list[Completion], victim: str
) -> None:
    """Unfinished responses are redone with the weights of now; none comes twice."""
    tuned.load_target(weights_of(model), 5)
    loaded_weights, host, seen = tuned.loaded_weights(), tuned.host, list[Completion]()
    tuned.take_statistics()

    def kill_at_first(completion: Completion) -> None:
        if not seen:
            os.kill(host.ready.processes[0] if victim == "scheduler" else host.pid, signal.SIGKILL)
        seen.append(completion)

    completions = tuned.generate(requests, GREEDY, kill_at_first)
    assert outcome(completions) == outcome(expected)
    assert sorted(completion.request.id for completion in seen) == [request.id for request in requests]
    assert tuned.loaded_weights() == loaded_weights
    assert tuned.host.pid != host.pid
    assert not host.folder.exists()
    statistics = tuned.take_statistics()
    assert statistics.tokens == sum(len(completion.tokens) for completion in completions)
    assert [code for code, _ in statistics.alarms] == ["engine_restarted"]


def test_what_was_learnt_survives_a_restart(tuned: SGLangEngine, requests: list[Request]) -> None:
    tuned.generate(requests, GREEDY)
    assert tuned.speculator
    state = tuned.speculator.state()
    assert state["tuner"]
    tuned.close()
    tuned.speculator.load_state(state)
    assert tuned.speculator.state()["tuner"] == state["tuner"]


def test_nothing_is_left_when_its_owner_is_gone(tuned: SGLangEngine) -> None:
    """The last test of this module. A socket closes with the process that holds it, even if that is killed."""
    host = tuned.host
    host._socket.close()
    deadline = time.monotonic() + 200
    while any(map(alive, pids := (host.pid, *host.ready.processes))):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in pids if alive(pid)]}"
        time.sleep(0.05)
    tuned.close()
    assert not host.folder.exists()


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
