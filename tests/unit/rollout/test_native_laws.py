"""Each sampling option keeps its law exactly, whoever drafts: chi-square tests on a model small enough to enumerate all responses."""

import gc
from collections.abc import Iterator
from dataclasses import replace

import pytest
from law_cases import exact_law, p_value
from native_cases import (
    RandomTuner,
    constant_drafter,
    make_engine,
    make_guessable,
    make_target,
    one_hot_drafter,
    random_drafter,
    strategies,
    with_random_tuner,
)
from sizes import ALL
from torch import Tensor
from transformers import PreTrainedModel

from engine.rollout.interface import Request, Sampling
from engine.speculation.strategy import Strategy

LENGTH, END, PROMPT = 3, 0, (3, 1, 4)
DRAFTERS = ("good", "untrained", "constant", "one-hot", "ngram")
OPTIONS = {
    "pure": Sampling(seed=1),
    "temperature": Sampling(0.7, seed=2),
    "top-p": Sampling(1.0, 0.8, seed=3),
    "top-k": Sampling(1.0, 1.0, 3, seed=4),
    "min-p": Sampling(min_p=0.25, seed=5),
    "all": Sampling(1.4, 0.9, 4, min_p=0.12, seed=6),
}
SAMPLES = 20_000 if ALL else 4_000
"""Of each drafter; of all five together there are 20,000 by default, which tell every option from every other."""
CHANCE = 1e-3 / (len(OPTIONS) * (len(DRAFTERS) + 1))
ARMS = (Strategy("eagle", 2, 2, 3), Strategy("eagle", 3, 3, 6), Strategy("ngram", 2, 1, 2), Strategy("ngram", 3, 1, 3))


@pytest.fixture
def _no_collection() -> Iterator[None]:
    """There are so many objects that looking for garbage among them takes a fifth of the time."""
    gc.disable()
    yield
    gc.enable()


def make_case() -> tuple[PreTrainedModel, dict[str, dict[str, Tensor]]]:
    """The same target each time, and the drafters that have weights."""
    target = make_target(vocabulary=6, hidden=16, layers=1, seed=2, tie_word_embeddings=False)
    good = make_guessable(target)
    return target, {
        "good": good,
        "untrained": random_drafter(target),
        "constant": constant_drafter(target),
        "one-hot": one_hot_drafter(target),
    }


def draw(drafter: str, sampling: Sampling) -> list[tuple[int, ...]]:
    """Responses of requests of which no other drafter has any, so that samples are independent; another strategy at each step.
    Suffix drafts only if they are what is tested: otherwise the learned drafter drafts."""
    target, learned = make_case()
    shapes = strategies((3, 1, 3), (3, 3, 6), suffix=drafter == "ngram")
    engine = make_engine(target, learned.get(drafter), shapes, slots=SAMPLES // 20, end_tokens=frozenset({END}))
    place = DRAFTERS.index(drafter)
    tuner = with_random_tuner(engine, RandomTuner(3, seed=place, more=ARMS))
    requests = [Request(place * SAMPLES + i, 0, PROMPT) for i in range(SAMPLES)]
    completions = engine.generate(requests, replace(sampling, max_new_tokens=LENGTH))
    assert {strategy.drafter for strategy, _ in tuner.steps} == {"none", "eagle" if drafter in learned else "ngram"}
    assert engine.take_statistics().accepted_by_position[0] > 0
    return [completion.tokens for completion in completions]


@pytest.mark.slow
@pytest.mark.usefixtures("_no_collection")
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_has_its_law_with_every_drafter(option: str) -> None:
    """10^5 samples with ``make test-all``.

    Bonferroni: of all options, drafters, and drafters together, any fails with one seed in a thousand.
    """
    target, _ = make_case()
    law = exact_law(target, PROMPT, LENGTH, END, OPTIONS[option])
    assert sum(law.values()) == pytest.approx(1)
    assert len(law) == 1 + 5 + 25 * 6
    samples = {drafter: draw(drafter, OPTIONS[option]) for drafter in DRAFTERS}
    together = [sample for drawn in samples.values() for sample in drawn]
    assert {name: p for name, drawn in samples.items() if (p := p_value(law, drawn)) <= CHANCE} == {}
    assert p_value(law, together) > CHANCE
    others = {name: exact_law(target, PROMPT, LENGTH, END, other) for name, other in OPTIONS.items() if name != option}
    assert {name: p for name, other in others.items() if (p := p_value(other, together)) > CHANCE} == {}, "it tells options apart"
