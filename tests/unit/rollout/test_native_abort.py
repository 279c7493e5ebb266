"""Responses that are ended on the way, or go on where an earlier rollout left them; and a generation that stands still."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from native_cases import (
    NGRAMS,
    TREES,
    Kept,
    RandomTuner,
    make_engine,
    make_requests,
    make_target,
    random_drafter,
    strategies,
    with_random_tuner,
)

from engine.rollout.interface import Completion, PartialResponse, Request, Sampling
from engine.rollout.native.engine import NativeEngine

SECONDS = 60.0
SAMPLING = Sampling(max_new_tokens=24, seed=4)
ENDS = frozenset({3, 4})
REQUESTS = make_requests(20, 48, group=4)


def speculative() -> NativeEngine:
    """Drafts of all kinds, another one at each step."""
    target = make_target()
    engine = make_engine(target, random_drafter(target), strategies((5, 2, 7), (4, 4, 12), suffix=True), slots=7, end_tokens=ENDS)
    with_random_tuner(engine, RandomTuner(4, more=(*TREES, *NGRAMS)))
    return engine


ENGINES: dict[str, Callable[[], NativeEngine]] = {
    "plain": lambda: make_engine(make_target(), slots=7, end_tokens=ENDS),
    "speculative": speculative,
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> NativeEngine:
    return ENGINES[request.param]()


def going_on(completion: Completion) -> Request:
    return replace(completion.request, begun=PartialResponse(completion.tokens, completion.logprobs, completion.spans))


def outcome(completions: list[Completion]) -> list[tuple[tuple[int, ...], str]]:
    return [(completion.tokens, completion.finish) for completion in completions]


def test_a_response_that_goes_on_ends_as_if_it_had_never_been_ended(engine: NativeEngine) -> None:
    """All are aborted at every third finish, over and over."""
    expected = engine.generate(REQUESTS, SAMPLING)
    left, done, rounds, features = REQUESTS, dict[int, Completion](), 0, Kept()
    while left:
        seen: list[int] = []

        def third(completion: Completion, seen: list[int] = seen) -> None:
            seen.append(completion.request.id)
            if len(seen) == 3:
                engine.abort()

        engine.load_target(make_target().state_dict(), rounds)
        found = engine.generate(left, SAMPLING, third, features.keep)
        finished = [completion for completion in found if completion.finish != "abort"]
        assert sorted(seen) == [completion.request.id for completion in finished]
        done |= {completion.request.id: completion for completion in finished}
        left, rounds = [going_on(completion) for completion in found if completion.finish == "abort"], rounds + 1
    assert rounds > 3
    completions = [done[request.id] for request in REQUESTS]
    assert outcome(completions) == outcome(expected)
    for one, whole in zip(completions, expected, strict=True):
        assert one.logprobs == pytest.approx(whole.logprobs, abs=1e-4)
        assert sum(tokens for _, tokens in one.spans) == len(one.tokens)
        versions = [version for version, _ in one.spans]
        assert versions == sorted(set(versions))
        assert versions[-1] == one.target_version
    assert any(len(completion.spans) > 2 for completion in completions)
    if engine.speculator:
        assert {id: len(rows) for id, rows in features.items()} == {
            each.request.id: len(each.request.prompt) + len(each.tokens) - 1 for each in completions
        }


def test_only_those_that_are_named_are_aborted(engine: NativeEngine) -> None:
    """Three that run, one that waits, one that is done and one that is not there."""
    expected = engine.generate(REQUESTS, SAMPLING)
    seen: list[int] = []
    unwanted = {0, 1, 2, 19}

    def first(completion: Completion) -> None:
        if not seen:
            engine.abort({completion.request.id, 999, *unwanted})
        seen.append(completion.request.id)

    found = engine.generate(REQUESTS, SAMPLING, first)
    aborted = [completion for completion in found if completion.finish == "abort"]
    ids = {completion.request.id for completion in aborted}
    assert ids <= unwanted
    assert 19 in ids
    assert len(ids) > 1
    for completion, whole in zip(found, expected, strict=True):
        if completion.finish == "abort":
            assert completion.tokens == whole.tokens[: len(completion.tokens)]
            assert completion.request.id not in seen
        else:
            assert (completion.tokens, completion.finish) == (whole.tokens, whole.finish)


def test_an_abort_is_of_the_running_generation_only(engine: NativeEngine) -> None:
    engine.abort()
    assert "abort" not in {completion.finish for completion in engine.generate(REQUESTS, SAMPLING)}


def test_a_paused_generation_stands_still_until_it_may_go_on(engine: NativeEngine) -> None:
    expected = outcome(engine.generate(REQUESTS, SAMPLING))
    paused, found = threading.Event(), list[Completion]()

    def pause(_: Completion) -> None:
        if not paused.is_set():
            engine.pause()
            paused.set()

    thread = threading.Thread(target=lambda: found.extend(engine.generate(REQUESTS, SAMPLING, pause)))
    thread.start()
    assert paused.wait(SECONDS)
    deadline, before = time.monotonic() + SECONDS, -1
    while engine.statistics.decode_steps != before:  # the step it was in may go to its end
        assert time.monotonic() < deadline
        before = engine.statistics.decode_steps
        time.sleep(0.2)
    assert thread.is_alive()
    engine.proceed()
    thread.join(SECONDS)
    assert outcome(found) == expected


def test_what_is_aborted_in_an_evaluation_can_be_asked_for_again(engine: NativeEngine) -> None:
    expected = outcome(engine.generate(REQUESTS, SAMPLING))
    for learn in (False, False, True):
        engine.watch(True, learn)
        found = engine.generate(REQUESTS, SAMPLING, lambda _: engine.abort())
        assert "abort" in {completion.finish for completion in found}
    assert outcome(engine.generate(REQUESTS, SAMPLING)) == expected
