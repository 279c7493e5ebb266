"""Our tuner where SGLang asks how long the next drafts shall be."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sglang_cases import chains

from engine.config import RunConfig, SpeculationConfig, parse
from engine.errors import ConfigError, ModelError
from engine.models.folder import ModelFacts, read_facts
from engine.rollout.sglang.draft_length_policy import DraftLengthPolicy
from engine.rollout.sglang.ngram_statistics import NgramStatistics
from engine.rollout.sglang.supported_speculation import chain_speculation, chain_steps, check, drafting

FACTS = ModelFacts("qwen2", 10**6, 2, 64, 259, 2048)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def policy(config: SpeculationConfig, clock: Clock | None = None, most: int = 8) -> DraftLengthPolicy:
    made = DraftLengthPolicy(config, 0, most, clock=clock or Clock())
    made.begin(64)
    return made


def step(policy: DraftLengthPolicy, clock: Clock, accepted: Sequence[int], seconds: float = 0.1) -> int:
    steps = policy.get_steps_for_batch(len(accepted))
    clock.now += seconds
    policy.on_verify_complete([min(drafts, steps) for drafts in accepted], len(accepted))
    return steps


def test_trees_become_chains_of_their_depth() -> None:
    """No longer than what is verified, and equal ones are one."""
    shapes = [(8, 4, 24), (6, 3, 4), (4, 1, 4), (2, 1, 2)]
    ngram = {"drafter": "ngram", "depth": 7, "verify": 7}
    strategies = [{"depth": depth, "top_k": top_k, "verify": verify} for depth, top_k, verify in shapes]
    config = chain_speculation(SpeculationConfig.model_validate({"strategies": [*strategies, ngram]}))
    assert chain_steps(config) == [0, 2, 4, 8]
    assert all((one.drafter, one.top_k, one.depth) == ("eagle", 1, one.verify) for one in config.strategies)
    assert (config.suffix.enabled, config.tail_requests) == (False, 0)


def run(**changes: object) -> RunConfig:
    return parse({"rollout": {"engine": "sglang"}, **changes})


def test_what_sglang_cannot_do_is_refused() -> None:
    check(run(), FACTS)
    with pytest.raises(ConfigError, match=r"rollout\.min_p=0\.1: SGLang ignores min_p"):
        check(run(rollout={"engine": "sglang", "min_p": 0.1}), FACTS)
    with pytest.raises(ConfigError, match=r"drafter\.recipe=eagle: SGLang has no such drafter for qwen3"):
        check(run(), replace(FACTS, family="qwen3"))
    beg = {"strategies": [{"depth": 2, "top_k": 2, "verify": 3}, {"depth": 2, "verify": 2}], "tuner": {"name": "beg", "thresholds": [1, 2]}}
    with pytest.raises(ConfigError, match=r"as the chains \[2\].*tuner\.thresholds has 2 values"):
        check(run(speculation=beg), FACTS)
    check(run(speculation={"enabled": False}, rollout={"engine": "sglang", "min_p": 0.1}), replace(FACTS, family="qwen3"))


def test_ngrams_draft_if_no_strategy_asks_for_a_drafter() -> None:
    strategies = [{"drafter": "ngram", "depth": 4, "verify": 3}, {"drafter": "ngram", "depth": 2, "verify": 2}]
    config = run(speculation={"strategies": strategies}, drafter={"spot": {"enabled": False}})
    check(config, replace(FACTS, family="qwen3"))
    assert drafting(config.speculation, config.rollout.sglang) == "ngram"
    assert chain_speculation(config.speculation, "ngram").strategies == config.speculation.strategies[:1]
    with pytest.raises(ConfigError, match=r"drafter\.spot\.enabled: n-grams draft in this run"):
        check(run(speculation={"strategies": strategies}), FACTS)


def test_a_small_model_may_draft(random_model: Path) -> None:
    def small(**changes: object) -> RunConfig:
        data = {"rollout": {"engine": "sglang", "sglang": {"draft_model": str(random_model)}}, "drafter": {"spot": {"enabled": False}}}
        return run(**data | changes)

    facts = read_facts(random_model)
    check(small(), replace(facts, family="qwen3"))
    assert drafting(small().speculation, small().rollout.sglang) == "standalone"
    with pytest.raises(ConfigError, match=r"drafter\.spot\.enabled: the draft model's chains draft in this run"):
        check(small(drafter={}), facts)
    with pytest.raises(ConfigError, match=r"draft_model needs at least one with drafter eagle"):
        check(small(speculation={"strategies": [{"drafter": "ngram", "depth": 2, "verify": 2}]}), facts)
    with pytest.raises(ModelError, match=r"draft_model: .* knows 259 tokens, and the model 260"):
        check(small(), replace(facts, vocabulary=260))
    long = {"engine": "sglang", "sglang": {"draft_model": str(random_model)}, "max_new_tokens": 2048}
    with pytest.raises(ModelError, match=r"draft_model: .* can hold 2048 tokens, and this run needs 2304"):
        check(small(rollout=long), facts)
    with pytest.raises(ModelError, match="no such folder"):
        check(small(rollout={"engine": "sglang", "sglang": {"draft_model": "nowhere"}}), facts)


def test_it_counts_what_was_drafted_and_accepted() -> None:
    clock = Clock()
    made = policy(chains(3), clock)
    assert step(made, clock, [3, 0, 1], 0.25) == 3
    assert step(made, clock, [2]) == 3
    taken = made.take_statistics()
    (one,) = taken["arms"]
    assert (one["strategy"], one["pulls"], one["requests"], one["accepted"]) == ("eagle d3 k1 v3", 2, 4, 6)
    assert one["seconds"] == pytest.approx(0.35)
    assert taken["drafted_by_position"] == [4, 4, 4]
    assert taken["accepted_by_position"] == [3, 2, 1]
    assert (taken["decode_steps"], taken["speculative_requests"], taken["speculative_tokens"], taken["plain_tokens"]) == (2, 4, 10, 0)
    assert made.take_statistics()["decode_steps"] == 0


def test_a_result_may_come_after_the_next_step_was_begun() -> None:
    """With overlap a step lasts from the last result to its own."""
    clock = Clock()
    made = policy(chains(2), clock)
    made.get_steps_for_batch(2)
    clock.now += 0.3
    made.get_steps_for_batch(1)
    clock.now += 0.1
    made.on_verify_complete([1, 2], 2)
    clock.now += 0.2
    made.on_verify_complete([0], 1)
    (one,) = made.take_statistics()["arms"]
    assert (one["pulls"], one["accepted"]) == (2, 3)
    assert one["seconds"] == pytest.approx(0.4 + 0.2)


def test_results_that_belong_to_no_step_teach_nothing() -> None:
    made = policy(chains(2))
    made.on_verify_complete([1], 1)
    made.get_steps_for_batch(2)
    made.on_verify_complete([1], 1)
    taken = made.take_statistics()
    assert (taken["arms"], taken["decode_steps"]) == ([], 0)


def test_above_the_threshold_it_is_off() -> None:
    clock = Clock()
    made = policy(chains(3).model_copy(update={"threshold": 4, "hysteresis": 0.5}), clock)
    assert [step(made, clock, [0] * size) for size in (8, 5, 4, 6, 7, 5, 4)] == [0, 0, 3, 3, 0, 0, 3]
    taken = made.take_statistics()
    assert taken["plain_tokens"] == 8 + 5 + 7 + 5
    chain = "eagle d3 k1 v3"
    assert [moment[1:] for moment in taken["moments"]] == [
        (8, "off"),
        (5, "off"),
        (4, chain),
        (6, chain),
        (7, "off"),
        (5, "off"),
        (4, chain),
    ]


def test_drafts_need_graphs_only_of_batches_that_are_drafted_for() -> None:
    made = policy(chains(3).model_copy(update={"threshold": 4, "hysteresis": 0.5}))
    assert made.cuda_graph_bs_for_step(3) is None
    made.set_cuda_graph_bs([1, 2, 4, 8, 16, 32])
    assert made.cuda_graph_bs_for_step(0) == [1, 2, 4, 8, 16, 32]
    assert made.cuda_graph_bs_for_step(3) == [1, 2, 4, 8]


def test_a_useless_drafter_is_turned_off_and_a_good_one_is_used() -> None:
    """A drafted token costs a fifth of a plain step."""
    for drafts, wanted in ((0, 0), (4, 4)):
        clock = Clock()
        made = policy(chains(4, 2, tuner={"name": "goodput"}), clock)
        chosen = []
        for _ in range(400):
            chosen.append(made.get_steps_for_batch(4))
            clock.now += 0.01 + 0.002 * chosen[-1]
            made.on_verify_complete([min(drafts, chosen[-1])] * 4, 4)
        assert chosen[200:].count(wanted) > 180


def test_ranks_do_what_rank_0_decides() -> None:
    made = DraftLengthPolicy(chains(3), 0, 8, agree=lambda steps: {3: 1, 0: 0}[steps])
    made.begin()
    assert made.get_steps_for_batch(2) == 1
    made.on_verify_complete([1, 0], 2)
    taken = made.take_statistics()
    assert taken["arms"] == [], "nothing is learnt about an arm that was not used"
    assert taken["drafted_by_position"] == [2]


def test_what_is_not_to_be_learnt_from_is_drafted_for_and_forgotten() -> None:
    clock = Clock()
    made = policy(chains(3), clock)
    made.begin(64, learn=False)
    learnt = made.speculator.state()["learned"]
    assert [step(made, clock, [3, 3]) for _ in range(4)] == [3] * 4
    taken = made.take_statistics()
    assert (taken["arms"], taken["drafted_by_position"][0]) == ([], 8)
    assert made.speculator.state()["learned"] == learnt == {}
    made.begin(64)
    step(made, clock, [3, 3])
    assert made.speculator.state()["learned"] != {}


def test_ngram_drafts_are_counted() -> None:
    clock = Clock()
    config = SpeculationConfig.model_validate({"strategies": [{"drafter": "ngram", "depth": 3, "verify": 3}]})
    made = NgramStatistics(config, clock)
    clock.now += 5
    made.begin(64)
    for accepted in ([3, 0, 1], [2]):
        clock.now += 0.25
        made.on_verify_complete(accepted)
    taken = made.take_statistics()
    (one,) = taken["arms"]
    assert (one["strategy"], one["pulls"], one["requests"], one["accepted"]) == ("ngram d3 k1 v3", 2, 4, 6)
    assert one["seconds"] == pytest.approx(0.5)
    assert (taken["decode_steps"], taken["speculative_tokens"], taken["accepted_by_position"]) == (2, 10, [3, 2, 1])
    assert [moment[1:] for moment in taken["moments"]] == [(3, "ngram d3 k1 v3"), (1, "ngram d3 k1 v3")]
    assert made.take_statistics()["arms"] == []
