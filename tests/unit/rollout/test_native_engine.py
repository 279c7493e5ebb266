"""The engine as its users see it."""

from itertools import pairwise

import pytest
import torch
from native_cases import (
    Kept,
    RandomTuner,
    chains,
    make_engine,
    make_guessable,
    make_requests,
    make_target,
    random_drafter,
    with_random_tuner,
)
from transformers import PreTrainedModel

from engine.config import SpeculationConfig
from engine.drafter.kind import DrafterKind
from engine.errors import DataError, ModelError
from engine.rollout.interface import Completion, Request, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.speculation.strategy import OFF

GREEDY = Sampling(temperature=0, max_new_tokens=20)


def continuations(target: PreTrainedModel, requests: list[Request], end: int | None = None, tokens: int = 20) -> list[tuple[int, ...]]:
    """Greedy ones by transformers, one request at a time."""
    outputs = []
    for request in requests:
        prompt = torch.tensor([request.prompt])
        output = target.generate(  # type: ignore[operator]
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=tokens, eos_token_id=end, pad_token_id=0
        )
        outputs.append(tuple(output[0, len(request.prompt) :].tolist()))
    return outputs


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize("speculative", [False, True])
def test_greedy_tokens_are_those_of_transformers(family: str, speculative: bool) -> None:
    target = make_target(family)
    requests = make_requests(24, 48)
    engine = (
        make_engine(target, random_drafter(target), chains(4), slots=7, end_tokens=frozenset({3}))
        if speculative
        else (make_engine(target, slots=7, end_tokens=frozenset({3})))
    )
    completions = engine.generate(requests, GREEDY)
    assert [completion.tokens for completion in completions] == continuations(target, requests, end=3)
    assert [completion.request for completion in completions] == requests
    for completion in completions:
        assert completion.finish == ("stop" if completion.tokens[-1] == 3 else "length")
    assert {completion.finish for completion in completions} == {"stop", "length"}


@pytest.mark.parametrize("speculation", [None, chains(3)])
def test_log_probabilities_are_those_of_transformers(speculation: SpeculationConfig | None) -> None:
    target = make_target()
    engine = make_engine(target, random_drafter(target) if speculation else None, speculation)
    for completion in engine.generate(make_requests(12, 48), Sampling(temperature=0.8, max_new_tokens=30, seed=5)):
        prompt = len(completion.request.prompt)
        tokens = torch.tensor([completion.request.prompt + completion.tokens])
        with torch.inference_mode():
            expected = (target(tokens).logits / 0.8).log_softmax(-1)[0, prompt - 1 : -1].gather(-1, tokens[0, prompt:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(completion.logprobs), expected, atol=1e-4, rtol=0)


def test_a_response_does_not_depend_on_its_batch() -> None:
    target = make_target()
    requests = make_requests(20, 48, group=4)
    sampling = Sampling(max_new_tokens=15, seed=2)
    together = make_engine(target, slots=20).generate(requests, sampling)
    alone = make_engine(target, slots=1).generate(requests[::-1], sampling)
    assert [completion.tokens for completion in together] == [completion.tokens for completion in alone[::-1]]
    siblings = [completion.tokens for completion in together[:4]]
    assert len(set(siblings)) == 4
    reseeded = make_engine(target, slots=20).generate(requests, Sampling(max_new_tokens=15, seed=3))
    assert [completion.tokens for completion in together] != [completion.tokens for completion in reseeded]


def test_on_finish_sees_each_completion_as_it_finishes() -> None:
    target = make_target()
    seen: list[Completion] = []
    running: list[int] = []
    engine = make_engine(target, slots=4, end_tokens=frozenset(range(4)))

    def see(completion: Completion) -> None:
        seen.append(completion)
        running.append(sum(not response.finish for response in (*engine._scheduler.running, *engine._scheduler.waiting)))

    completions = engine.generate(make_requests(15, 48), Sampling(max_new_tokens=30), see)
    assert sorted(seen, key=lambda completion: completion.request.id) == completions
    assert [len(completion.tokens) for completion in seen] != sorted((len(c.tokens) for c in seen), reverse=True)
    assert all(later <= earlier for earlier, later in pairwise(running))
    assert running[-1] == engine._scheduler.unfinished == 0


def test_an_error_in_on_finish_leaves_the_engine_usable() -> None:
    target = make_target()
    engine, requests = make_engine(target, slots=4), make_requests(9, 48)

    def fail(_: Completion) -> None:
        raise KeyError("mine")

    expected = engine.generate(requests, GREEDY)
    with pytest.raises(KeyError, match="mine"):
        engine.generate(requests, GREEDY, fail)
    assert engine.generate(requests, GREEDY) == expected


@pytest.mark.parametrize("length", [0, 65])
def test_a_prompt_that_does_not_fit_is_refused_before_anything_is_generated(length: int) -> None:
    engine = make_engine(make_target())
    requests = [Request(7, 0, (1, 2)), Request(8, 1, (1,) * length)]
    seen: list[Completion] = []
    with pytest.raises(DataError, match=f"request 8 has {length} tokens; max_prompt_tokens allows 1 to 64"):
        engine.generate(requests, GREEDY, seen.append)
    assert not seen
    assert engine.take_statistics().decode_steps == 0
    assert engine._scheduler.unfinished == 0


def test_no_requests_give_no_completions() -> None:
    assert make_engine(make_target()).generate([], GREEDY) == []


def test_new_target_weights_are_used_and_named() -> None:
    first, second = make_target(seed=0), make_target(seed=9)
    requests = make_requests(8, 48)
    engine = make_engine(first, random_drafter(first), chains(3))
    engine.generate(requests, GREEDY)
    engine.load_target(second.state_dict(), 4)
    completions = engine.generate(requests, GREEDY)
    assert [completion.tokens for completion in completions] == continuations(second, requests)
    assert {(completion.target_version, completion.drafter_version) for completion in completions} == {(4, 0)}


def test_decoding_is_plain_until_a_drafter_comes() -> None:
    target = make_target(tie_word_embeddings=False)
    drafter = make_guessable(target)
    requests = make_requests(8, 48)
    engine = make_engine(target, None, chains(3))
    plain = engine.generate(requests, GREEDY)
    assert engine.take_statistics().speculative_requests == 0
    engine.load_drafter(drafter, 2)
    speculative = engine.generate(requests, GREEDY)
    assert [completion.tokens for completion in speculative] == [completion.tokens for completion in plain]
    assert {completion.drafter_version for completion in speculative} == {2}
    assert engine.take_statistics().speculative_requests > 0


def test_drafter_weights_that_do_not_fit_are_refused() -> None:
    target = make_target()
    engine = make_engine(target, None, chains(3))
    for change, message in (
        ({"fc.weight": torch.zeros(64, 64)}, r"drafter weight fc\.weight has shape \[64, 64\], the model needs \[64, 128\]"),
        ({"model.embed_tokens.weight": torch.zeros(48, 64)}, r"unknown \['model\.embed_tokens\.weight'\]"),
    ):
        with pytest.raises(ModelError, match=message):
            engine.load_drafter(random_drafter(target) | change, 1)
    with pytest.raises(ModelError, match="made without speculation"):
        make_engine(target).load_drafter(random_drafter(target), 1)


def test_memory_is_freed_and_taken_again() -> None:
    target = make_target()
    requests = make_requests(8, 48)
    engine = make_engine(target, random_drafter(target), chains(3))
    before = engine.generate(requests, GREEDY)
    engine.release()
    assert engine._runner.cache.features.numel() == engine._runner.cache._store.numel() == 0
    engine.resume()
    assert engine.generate(requests, GREEDY) == before
    engine.release()
    engine.release()
    assert engine.generate(requests, GREEDY) == before


def test_statistics_count_what_was_generated() -> None:
    target = make_target(tie_word_embeddings=False)
    drafter = make_guessable(target)
    ticks = iter(range(10**6))
    engine = make_engine(target, drafter, chains(3), slots=5)
    engine._clock = lambda: float(next(ticks))
    completions = engine.generate(make_requests(11, 48), Sampling(max_new_tokens=17))
    statistics = engine.take_statistics()
    (arm,) = [arm for arm in statistics.arms if arm.strategy != "off"]  # first tokens are decoded plainly
    assert statistics.tokens == sum(len(completion.tokens) for completion in completions) == 11 * 17
    assert (arm.strategy, arm.bucket) == ("eagle d3 k1 v3", 1)
    assert arm.requests == statistics.speculative_requests
    assert arm.accepted == statistics.speculative_tokens - statistics.speculative_requests
    assert arm.seconds == arm.pulls
    assert statistics.drafted_by_position == [arm.requests] * 3
    first, second, third = statistics.accepted_by_position
    assert arm.requests > first > second > third > 0
    assert first + second + third >= arm.accepted
    assert statistics.decode_steps >= arm.pulls
    empty = engine.take_statistics()
    assert (empty.tokens, empty.arms, empty.drafted_by_position) == (0, [], [0, 0, 0])


def test_speculation_is_on_only_while_few_requests_run() -> None:
    target = make_target()
    speculation = chains(4).model_copy(update={"threshold": 3, "hysteresis": 0.0})
    engine = make_engine(target, random_drafter(target), speculation, slots=8, end_tokens=frozenset({0, 1, 2}))
    tuner = with_random_tuner(engine, RandomTuner(4))
    plain = make_engine(target, slots=8, end_tokens=frozenset({0, 1, 2}))
    requests, sampling = make_requests(30, 48), Sampling(max_new_tokens=40)
    completions = engine.generate(requests, sampling)
    assert [c.tokens for c in completions] == [c.tokens for c in plain.generate(requests, sampling)]
    assert {len(accepted) for strategy, accepted in tuner.steps if strategy != OFF} == {1, 2, 3}
    assert max(len(accepted) for strategy, accepted in tuner.steps if strategy == OFF) == 8
    statistics = engine.take_statistics()
    assert statistics.decode_steps == len(tuner.steps)
    moments = statistics.moments[0]
    assert [moment.time for moment in moments] == sorted(moment.time for moment in moments)
    assert moments[0][1:] == (8, "off")
    assert moments[-1][1:] == (0, "off")
    assert {moment.running for moment in moments if moment.strategy != "off"} == {1, 2, 3}


def test_the_plain_engine_has_nothing_of_a_drafter() -> None:
    engine: NativeEngine = make_engine(make_target())
    engine.generate(make_requests(3, 48), GREEDY)
    assert engine.speculator is None
    assert engine._runner.drafter is None
    assert engine._runner.cache.features.numel() == 0
    assert len(engine._runner.cache._store) == 2


@pytest.mark.parametrize(("kind", "captured"), [("eagle", ()), ("eagle3", (2, 3, 4))])
def test_features_of_finished_responses_are_the_models_hidden_states(kind: DrafterKind, captured: tuple[int, ...]) -> None:
    """Those that the drafter reads: of EAGLE-3 the inputs of layers 2, n / 2 and n - 3 as well."""
    target = make_target(layers=7)
    drafter = random_drafter(target, kind=kind)
    ends = frozenset({3, 4, 5})
    engine, features, seen = make_engine(target, drafter, chains(3), slots=4, end_tokens=ends, drafter_kind=kind), Kept(), list[int]()

    def finished(completion: Completion) -> None:
        seen.append(completion.request.id)
        assert list(features) == seen, "each is handed over as it finishes, and the engine keeps none"

    completions = engine.generate(make_requests(11, 48, group=2), Sampling(max_new_tokens=25), finished, features.keep)
    assert len(seen) == 11
    for completion in completions:
        tokens = torch.tensor([completion.request.prompt + completion.tokens])
        with torch.inference_mode():
            hidden = target(tokens, output_hidden_states=True).hidden_states
        expected = torch.cat([hidden[layer][0, :-1] for layer in (*captured, -1)], -1)
        assert features[completion.request.id].dtype == torch.bfloat16
        torch.testing.assert_close(features[completion.request.id].float(), expected, atol=1e-3, rtol=2**-7)


def test_an_engine_that_does_not_watch_says_the_same_and_learns_nothing() -> None:
    target = make_target()
    engine = make_engine(target, random_drafter(target), chains(3), slots=4)
    requests, sampling = make_requests(7, 48), Sampling(max_new_tokens=12)
    features, none, again = Kept(), Kept(), Kept()
    before = [completion.tokens for completion in engine.generate(requests, sampling, keep=features.keep)]
    watched = engine.take_statistics()
    engine.watch(False)
    assert [completion.tokens for completion in engine.generate(requests, sampling, keep=none.keep)] == before
    resting = engine.take_statistics()
    assert (resting.speculative_requests, resting.arms, none) == (0, [], {})
    assert engine.speculator
    learnt = {name: part for name, part in engine.speculator.state().items() if "watchdog" not in name}
    engine.watch(True, learn=False)
    assert [completion.tokens for completion in engine.generate(requests, sampling, keep=none.keep)] == before
    drafting = engine.take_statistics()
    assert (drafting.drafted_by_position, drafting.arms, none) == (watched.drafted_by_position, [], {})
    assert {name: part for name, part in engine.speculator.state().items() if "watchdog" not in name} == learnt
    engine.watch(True)
    assert [completion.tokens for completion in engine.generate(requests, sampling, keep=again.keep)] == before
    watching = engine.take_statistics()
    assert (watching.decode_steps, watching.drafted_by_position) == (watched.decode_steps, watched.drafted_by_position)
    assert len(again) == len(requests)
    assert again.keys() == features.keys()
