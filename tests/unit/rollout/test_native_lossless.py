"""What is generated does not depend on the drafter, the strategy, or the moment of switching; and it has the target's law."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product

import pytest
import torch
from law_cases import exact_law, p_value
from native_cases import (
    NGRAMS,
    TREES,
    RandomTuner,
    constant_drafter,
    make_engine,
    make_guessable,
    make_requests,
    make_target,
    random_drafter,
    strategies,
    with_random_tuner,
)
from scipy.stats import chisquare
from sizes import examples
from torch import Tensor
from transformers import PreTrainedModel

from engine.drafter.kind import DrafterKind
from engine.rollout.interface import Completion, Request, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.speculation.strategy import Strategy

DRAFTERS = ("random", "constant", "good", "eagle3")
ENDS = frozenset({5, 6})
SHAPES = ((7, 1, 7), *((tree.depth, tree.top_k, tree.verify) for tree in TREES))


def make_pair(drafter: str, slots: int, seed: int = 0) -> tuple[NativeEngine, NativeEngine, RandomTuner]:
    """A plain and a speculative engine of one target; the strategy of the latter changes at random at every step."""
    target = make_target(seed=seed, tie_word_embeddings=False)
    make: dict[str, Callable[[PreTrainedModel], dict[str, Tensor]]] = {
        "random": random_drafter,
        "constant": constant_drafter,
        "good": make_guessable,
        "eagle3": partial(random_drafter, kind="eagle3"),
    }
    kind: DrafterKind = "eagle3" if drafter == "eagle3" else "eagle"
    weights = make[drafter](target)
    plain = make_engine(target, slots=slots, end_tokens=ENDS)
    speculation = strategies(*SHAPES, suffix=True)
    speculative = make_engine(target, weights, speculation, slots=slots, end_tokens=ENDS, drafter_kind=kind)
    return plain, speculative, with_random_tuner(speculative, RandomTuner(7, more=(*TREES, *NGRAMS)))


def outcome(completions: list[Completion]) -> list[tuple[tuple[int, ...], str]]:
    return [(completion.tokens, completion.finish) for completion in completions]


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_greedy_equals_plain_token_for_token(drafter: str) -> None:
    plain, speculative, tuner = make_pair(drafter, slots=12)
    requests = make_requests(3 * examples(334), 48, group=3)
    sampling = Sampling(temperature=0, max_new_tokens=20)
    expected = plain.generate(requests, sampling)
    assert outcome(speculative.generate(requests, sampling)) == outcome(expected)
    assert {completion.finish for completion in expected} == {"stop", "length"}
    assert {strategy for strategy, _ in tuner.steps} == set(tuner.arms)
    assert plain._scheduler.unfinished == speculative._scheduler.unfinished == 0
    accepted = [drafts for strategy, drafts in tuner.steps if strategy.drafter == "eagle"]
    assert max(map(max, accepted)) >= {"random": 1, "constant": 1, "good": 7, "eagle3": 1}[drafter]


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("sampling", [Sampling(seed=1), Sampling(0.7, 0.9, seed=2), Sampling(1.2, 1.0, 6, seed=3)])
def test_samples_equal_plain_token_for_token(drafter: str, sampling: Sampling) -> None:
    plain, speculative, _ = make_pair(drafter, slots=10, seed=4)
    sampling = Sampling(sampling.temperature, sampling.top_p, sampling.top_k, max_new_tokens=30, seed=sampling.seed)
    requests = make_requests(60, 48, group=5)
    expected = plain.generate(requests, sampling)
    actual = speculative.generate(requests, sampling)
    assert outcome(actual) == outcome(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(torch.tensor(ours.logprobs), torch.tensor(theirs.logprobs), atol=1e-4, rtol=0)


PURE, CUT = Sampling(max_new_tokens=4), Sampling(0.8, 0.85, max_new_tokens=4, seed=1)


@pytest.mark.parametrize(("drafter", "sampling"), [(None, PURE), ("random", PURE), ("constant", PURE), ("good", PURE), ("constant", CUT)])
def test_responses_have_the_law_of_the_target(drafter: str | None, sampling: Sampling) -> None:
    target = make_target(vocabulary=6, hidden=16, layers=1, seed=2, tie_word_embeddings=False)
    weights = {"random": random_drafter, "constant": constant_drafter, "good": make_guessable}[drafter](target) if drafter else None
    prompt, end = (3, 1, 4), 0
    law = exact_law(target, prompt, 4, end, sampling)
    assert abs(sum(law.values()) - 1) < 1e-9
    assert len(law) == 1 + 5 + 25 + 125 * 6
    engine = make_engine(target, weights, strategies((3, 1, 3), (3, 3, 6)) if weights else None, slots=4000, end_tokens=frozenset({end}))
    if weights:
        with_random_tuner(engine, RandomTuner(3, more=(Strategy("eagle", 2, 2, 3), Strategy("eagle", 3, 3, 6))))
    samples = [completion.tokens for completion in engine.generate([Request(i, 0, prompt) for i in range(20_000)], sampling)]
    assert p_value(law, samples) > 1e-4
    flat = dict.fromkeys(law, 1 / len(law))
    assert p_value(flat, samples) < 1e-4, "the test must be able to tell laws apart"


def test_the_test_notices_a_law_that_is_a_little_off() -> None:
    """A chi-square test of this size rejects the same target at temperature 0.9."""
    target = make_target(vocabulary=6, hidden=16, layers=1, seed=2, tie_word_embeddings=False)
    law = exact_law(target, (3, 1, 4), 4, 0, Sampling(0.9))
    engine = make_engine(target, slots=4000, end_tokens=frozenset({0}))
    samples = [c.tokens for c in engine.generate([Request(i, 0, (3, 1, 4)) for i in range(20_000)], Sampling(max_new_tokens=4))]
    assert p_value(law, samples) < 1e-4


def test_every_prompt_has_its_own_law() -> None:
    """The first token after each of 16 prompts."""
    target = make_target(vocabulary=4, hidden=16, layers=1, seed=5)
    engine = make_engine(target, slots=2000)
    prompts = list(product(range(4), repeat=2))
    requests = [Request(i, i % 16, prompts[i % 16]) for i in range(16_000)]
    drawn = Counter(
        (completion.request.prompt, completion.tokens[0]) for completion in engine.generate(requests, Sampling(max_new_tokens=1))
    )
    with torch.inference_mode():
        expected = target(torch.tensor(prompts)).logits[:, -1].double().softmax(-1) * 1000
    observed = torch.tensor([[drawn[prompt, token] for token in range(4)] for prompt in prompts])
    assert chisquare(observed.flatten(), expected.flatten()).pvalue > 1e-4
