"""End tokens, stop strings and length limits inside a draft cut a response where plain decoding does; log-probabilities stay the same."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from native_cases import (
    NGRAMS,
    TREES,
    RandomTuner,
    make_engine,
    make_guessable,
    make_requests,
    make_target,
    strategies,
    with_random_tuner,
)
from tokenizers import decoders

from engine.config.task import CountdownConfig
from engine.drafter.export import load_drafter_folder
from engine.errors import DataError
from engine.models.folder import DRAFTER, TINY
from engine.models.load import load_model, load_tokenizer
from engine.rollout.interface import Completion, Request, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.rollout.response import StopCondition
from engine.tasks.countdown import CountdownTask

SHAPES = ((7, 1, 7), *((tree.depth, tree.top_k, tree.verify) for tree in TREES))
TEXTS = ("a", "b", "c", "ab", "bc", "ca", "d", "-", "é", "cab")


def decode(tokens: Sequence[int]) -> str:
    """Tokens of one to three letters."""
    return "".join(TEXTS[token % len(TEXTS)] for token in tokens)


def make_pair(end_tokens: frozenset[int] = frozenset()) -> tuple[NativeEngine, NativeEngine]:
    """A plain engine and one with a drafter that is often right, whose strategy changes at every step."""
    target = make_target(tie_word_embeddings=False, seed=3)
    drafter = make_guessable(target)
    plain = make_engine(target, slots=6, end_tokens=end_tokens, decode=decode)
    speculative = make_engine(target, drafter, strategies(*SHAPES, suffix=True), slots=6, end_tokens=end_tokens, decode=decode)
    with_random_tuner(speculative, RandomTuner(7, more=(*TREES, *NGRAMS)))
    return plain, speculative


def cut(completion: Completion, stop: Sequence[str], ends: frozenset[int], limit: int) -> tuple[tuple[int, ...], str]:
    """The response up to the first token that ends it, found token by token in the whole text."""
    tokens = completion.tokens
    for length in range(1, limit + 1):
        text = decode(tokens[:length])
        if tokens[length - 1] in ends or any(each in text for each in stop):
            return tokens[:length], "stop"
    return tokens[:limit], "length"


@pytest.mark.parametrize(
    ("stop", "ends", "limit"),
    [
        (("abc",), frozenset(), 40),
        (("é", "dd"), frozenset(), 40),
        (("bcab-", "caba"), frozenset({4, 17}), 40),
        ((), frozenset({1, 2, 3}), 40),
        ((), frozenset(), 1),
        ((), frozenset(), 3),
        (("ca",), frozenset({5}), 7),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_response_is_cut_at_the_token_where_a_longer_one_would_have_ended(
    stop: tuple[str, ...], ends: frozenset[int], limit: int, temperature: float
) -> None:
    requests = make_requests(60, 48, group=3, seed=4)
    sampling = Sampling(temperature, max_new_tokens=limit, seed=5)
    endless, _ = make_pair()
    expected = [cut(whole, stop, ends, limit) for whole in endless.generate(requests, replace(sampling, max_new_tokens=40))]
    plain, speculative = make_pair(ends)
    cases = [engine.generate(requests, replace(sampling, stop=stop)) for engine in (plain, speculative)]
    for completions in cases:
        assert [(completion.tokens, completion.finish) for completion in completions] == expected
        assert all(len(completion.logprobs) == len(completion.tokens) for completion in completions)
    assert ("stop" in {finish for _, finish in expected}) == bool(stop or ends) or temperature == 0
    statistics = speculative.take_statistics()
    assert statistics.tokens == sum(len(tokens) for tokens, _ in expected)
    verified = sum(statistics.accepted_by_position) + statistics.speculative_requests
    assert limit == 1 or verified > statistics.speculative_tokens, "some drafts were accepted beyond an end"


def test_stop_strings_need_a_decoder_before_anything_is_generated() -> None:
    target = make_target()
    engine = make_engine(target)
    with pytest.raises(DataError, match="stop strings need a tokenizer"):
        engine.generate(make_requests(2, 48), Sampling(stop=("a",)))
    assert engine._scheduler.unfinished == 0
    assert engine.take_statistics().decode_steps == 0
    assert len(engine.generate(make_requests(2, 48), Sampling(max_new_tokens=3))) == 2


@pytest.mark.parametrize("sampling", [Sampling(0.0), Sampling(1.0, seed=1), Sampling(0.8, 0.9, 20, seed=2, min_p=0.02)])
def test_log_probabilities_of_a_trained_model_are_plain_ones_to_five_digits(sampling: Sampling) -> None:
    """The built-in model with its own drafter."""
    target, tokenizer = load_model(TINY, torch.float32), load_tokenizer(TINY)
    prompts = [prompt.tokens for prompt in CountdownTask(CountdownConfig(), 0, tokenizer).prompts(0, 8)]
    requests = [Request(i, i // 2, prompts[i // 2]) for i in range(16)]
    ends = frozenset({int(tokenizer.eos_token_id)})
    plain = make_engine(target, end_tokens=ends)
    speculative = make_engine(target, load_drafter_folder(DRAFTER, target.config), strategies(*SHAPES, suffix=True), end_tokens=ends)
    tuner = with_random_tuner(speculative, RandomTuner(7, more=(*TREES, *NGRAMS)))
    sampling = replace(sampling, max_new_tokens=48)
    expected, actual = plain.generate(requests, sampling), speculative.generate(requests, sampling)
    assert [completion.tokens for completion in actual] == [completion.tokens for completion in expected]
    assert max(sum(accepted) for _, accepted in tuner.steps) >= 8
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(torch.tensor(ours.logprobs), torch.tensor(theirs.logprobs), atol=1e-5, rtol=0)


def test_a_stop_string_is_found_whose_space_is_a_token_of_its_own() -> None:
    """As in the tokenizers of Mistral and Gemma, which drop a space in front of all that they decode."""
    pieces = ["x", "▁", "5", "▁5"]
    decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    ends = StopCondition(frozenset(), (" 5",), lambda tokens: str(decoder.decode([pieces[token] for token in tokens])))
    assert [ends.reached(tokens) for tokens in ([0], [0, 1], [0, 1, 2])] == [False, False, True]
    assert [ends.reached(tokens) for tokens in ([0, 2], [0, 0, 3])] == [False, True]
