"""Responses of the real SGLang that are ended on the way and gone on with, and generations that stand still."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from sglang_cases import chains, native_engine, needs_sglang, sglang_engine
from sizes import only_with_all
from transformers import PreTrainedModel

from engine.config import RolloutConfig
from engine.config.task import CountdownConfig
from engine.drafter.export import load_drafter_folder
from engine.models.folder import DRAFTER, TINY
from engine.models.load import end_tokens, load_model, load_tokenizer
from engine.rollout.interface import Completion, PartialResponse, Request, Sampling
from engine.rollout.sglang.engine import SGLangEngine
from engine.tasks.countdown import CountdownTask

pytestmark = [*needs_sglang, only_with_all]
ROLLOUT = RolloutConfig(max_batch=8, max_prompt_tokens=32, max_new_tokens=192)
GREEDY = Sampling(temperature=0, max_new_tokens=192)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return load_model(TINY, torch.float32)


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    """Twelve, of which four wait until others are done."""
    prompts = CountdownTask(CountdownConfig(), 0, load_tokenizer(TINY)).prompts(0, 12)
    return [Request(index, index, prompt.tokens) for index, prompt in enumerate(prompts)]


@pytest.fixture(scope="module")
def expected(model: PreTrainedModel, requests: list[Request]) -> list[Completion]:
    return native_engine(model, ROLLOUT, end_tokens=end_tokens(model, load_tokenizer(TINY))).generate(requests, GREEDY)


@pytest.fixture(scope="module")
def engine(model: PreTrainedModel) -> Iterator[SGLangEngine]:
    more = {"drafter_weights": load_drafter_folder(DRAFTER, model.config), "end_tokens": end_tokens(model, load_tokenizer(TINY))}
    with sglang_engine(TINY, model, ROLLOUT, chains(3), **more) as engine:
        yield engine


def outcome(completions: list[Completion]) -> list[tuple[tuple[int, ...], str]]:
    return [(completion.tokens, completion.finish) for completion in completions]


def test_responses_that_go_on_end_as_if_they_had_never_been_ended(
    engine: SGLangEngine, requests: list[Request], expected: list[Completion]
) -> None:
    """All are aborted at every third finish, over and over."""
    left, done, rounds = requests, dict[int, Completion](), 0
    while left:
        seen: list[Completion] = []

        def third(completion: Completion, seen: list[Completion] = seen) -> None:
            seen.append(completion)
            if len(seen) == 3:
                engine.abort()

        found = engine.generate(left, GREEDY, third)
        assert {completion.request.id for completion in seen} == {each.request.id for each in found if each.finish != "abort"}
        done |= {completion.request.id: completion for completion in seen}
        left = [
            replace(completion.request, begun=PartialResponse(completion.tokens, completion.logprobs, completion.spans))
            for completion in found
            if completion.finish == "abort"
        ]
        rounds += 1
    assert rounds > 1
    completions = [done[request.id] for request in requests]
    assert outcome(completions) == outcome(expected)
    for one, whole in zip(completions, expected, strict=True):
        torch.testing.assert_close(torch.tensor(one.logprobs), torch.tensor(whole.logprobs), atol=1e-4, rtol=0)


def test_only_those_that_are_named_are_aborted(engine: SGLangEngine, requests: list[Request], expected: list[Completion]) -> None:
    """Those that wait at the first finish; one that is done, and one that is not there."""

    def first(completion: Completion) -> None:
        engine.abort({completion.request.id, 10, 11, 999})

    found = engine.generate(requests, GREEDY, first)
    assert {completion.request.id for completion in found if completion.finish == "abort"} == {10, 11}
    assert outcome(found[:10]) == outcome(expected[:10])
    engine.abort()
    assert outcome(engine.generate(requests[:2], GREEDY)) == outcome(expected[:2]), "there was nothing to abort"


def test_a_paused_generation_stands_still_until_it_may_go_on(
    engine: SGLangEngine, requests: list[Request], expected: list[Completion]
) -> None:
    found: list[Completion] = []
    thread = threading.Thread(target=lambda: found.extend(engine.generate(requests, GREEDY)))
    thread.start()
    while not engine.progress(0.0).generated:
        time.sleep(0.01)
    engine.pause()
    time.sleep(0.5)
    before = engine.progress(0.0)
    time.sleep(0.5)
    assert engine.progress(0.0) == before
    assert before.remaining
    engine.proceed()
    thread.join(600)
    assert outcome(found) == outcome(expected)
