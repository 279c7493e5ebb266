"""What drafts in SGLang beside the learned drafter: a whole small model, and n-grams."""

import shutil

import pytest
import torch
from sglang_cases import accept_length, native_engine, needs_sglang, random_drafter, sglang_engine, shapes, weights_of
from sizes import only_with_all

from engine.config import RolloutConfig, SGLangConfig, SpeculationConfig
from engine.config.task import CountdownConfig
from engine.models.folder import TINY
from engine.models.load import end_tokens, load_model, load_tokenizer
from engine.rollout.interface import Request, RolloutStatistics, Sampling
from engine.rollout.sglang.engine import SGLangEngine
from engine.tasks.countdown import CountdownTask

pytestmark = needs_sglang
ROLLOUT = RolloutConfig(max_batch=16, max_prompt_tokens=32, max_new_tokens=64)
GREEDY = Sampling(temperature=0, max_new_tokens=64)
MODEL = load_model(TINY, torch.float32)
ENDS = end_tokens(MODEL, load_tokenizer(TINY))
DRAFTER = random_drafter(MODEL)  # the learned one, which is not asked


def requests() -> list[Request]:
    prompts = CountdownTask(CountdownConfig(), 0, load_tokenizer(TINY)).prompts(0, 6)
    return [Request(4 * group + member, group, prompt.tokens) for group, prompt in enumerate(prompts) for member in range(4)]


def same_as_native(engine: SGLangEngine) -> None:
    expected = native_engine(MODEL, ROLLOUT, end_tokens=ENDS).generate(requests(), GREEDY)
    assert [each.tokens for each in engine.generate(requests(), GREEDY)] == [each.tokens for each in expected]


def target_alone_changes(engine: SGLangEngine) -> None:
    """A load of the learned drafter only counts; a load of the target leaves what drafts as it is."""
    before = engine.loaded_weights()
    engine.load_target({name: 1.02 * weight for name, weight in weights_of(MODEL).items()}, 1)
    moved = engine.loaded_weights()
    assert (moved.target_version, moved.target != before.target, moved.drafter == before.drafter) == (1, True, True)
    engine.load_drafter(random_drafter(MODEL, seed=2), 1)
    assert (engine.loaded_weights().drafter_version, engine.loaded_weights().drafter) == (1, before.drafter)
    engine.load_target(weights_of(MODEL), 2)
    assert engine.loaded_weights().target == before.target


def accepted(statistics: RolloutStatistics) -> float:
    """The share of all drafted tokens, which the tuner's choice of lengths hardly moves."""
    return sum(statistics.accepted_by_position) / sum(statistics.drafted_by_position)


@only_with_all
def test_a_small_model_drafts_what_the_tuner_chooses() -> None:
    """The best draft model there can be: the target itself, as it was."""
    rollout = ROLLOUT.model_copy(update={"sglang": SGLangConfig(draft_model=str(TINY))})
    speculation = shapes((4, 2, 6), (2, 1, 2), tuner={"name": "beg", "epsilon": 0.5, "thresholds": [1, 5]})
    with sglang_engine(TINY, MODEL, rollout, speculation, drafter_weights=DRAFTER, end_tokens=ENDS) as engine:
        same_as_native(engine)
        statistics = engine.take_statistics()
        assert {arm.strategy for arm in statistics.arms} == {"off", "eagle d4 k2 v6", "eagle d2 k1 v2"}
        assert accepted(statistics) > 0.7
        target_alone_changes(engine)
        same_as_native(engine)
        assert accepted(engine.take_statistics()) > 0.7
        assert engine.speculator
        assert engine.speculator.state()["tuner"]


@only_with_all
@pytest.mark.skipif(not (shutil.which("c++") and shutil.which("ninja")), reason="SGLang compiles its n-gram store: needs c++ and ninja")
def test_ngrams_draft_chains_of_one_length() -> None:
    speculation = SpeculationConfig.model_validate({"strategies": [{"drafter": "ngram", "depth": 5, "verify": 4}]})
    with sglang_engine(TINY, MODEL, ROLLOUT, speculation, drafter_weights=DRAFTER, end_tokens=ENDS) as engine:
        same_as_native(engine)
        statistics = engine.take_statistics()
        (arm,) = statistics.arms
        assert (arm.strategy, arm.pulls) == ("ngram d5 k1 v4", statistics.decode_steps)
        assert len(statistics.drafted_by_position) == 4
        assert accept_length(statistics) > 1.2, "four siblings write the same"
        target_alone_changes(engine)
        same_as_native(engine)
        assert engine.speculator is None
