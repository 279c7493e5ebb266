"""Our tuner inside SGLang: what it may choose from, what it is told, and the shapes of the trees that it gets."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from sglang_cases import chains, shapes

from engine.config import RunConfig, SpeculationConfig, parse
from engine.errors import ConfigError, ModelError
from engine.models.folder import ModelFacts, read_facts
from engine.rollout.sglang.draft_trees import likeliest
from engine.rollout.sglang.ngram_statistics import NgramStatistics
from engine.rollout.sglang.strategy_policy import StrategyPolicy
from engine.rollout.sglang.strategy_states import keys
from engine.rollout.sglang.supported_speculation import Widest, check, drafting, supported, widest
from engine.speculation.strategy import OFF, Strategy

FACTS = ModelFacts("qwen2", 10**6, 2, 64, 259, 2048)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def policy(config: SpeculationConfig, clock: Clock | None = None, most: int = 8) -> StrategyPolicy:
    made = StrategyPolicy(config, 0, most, clock=clock or Clock())
    made.begin(64)
    return made


def step(policy: StrategyPolicy, clock: Clock, accepted: Sequence[int], seconds: float = 0.1) -> int:
    depth = policy.begin_step(len(accepted)).depth
    clock.now += seconds
    policy.end_step([min(drafts, depth) for drafts in accepted])
    return depth


def test_strategies_of_the_drafter_are_left_as_they_are() -> None:
    """But for chains that are not verified to their end, which are equal to shorter ones."""
    config = shapes((8, 4, 24), (6, 3, 4), (4, 1, 3), (3, 1, 3), (2, 1, 2))
    ngram = {"drafter": "ngram", "depth": 30, "verify": 30}
    config = config.model_copy(update={"strategies": (*config.strategies, config.strategies[0].model_validate(ngram))})
    found = supported(config)
    assert [str(Strategy.of(each)) for each in found.strategies] == [
        "eagle d8 k4 v24",
        "eagle d6 k3 v4",
        "eagle d3 k1 v3",
        "eagle d2 k1 v2",
    ]
    assert not found.suffix.enabled
    assert widest(found) == Widest(8, 4, 25)
    assert widest(found).drafted == 32
    assert widest(shapes((2, 2, 6))).drafted == 7


def test_sets_are_shared_where_they_are_equal() -> None:
    """Drafts by depth and top_k, the target's pass by its tokens; a chain there needs no tree."""
    wide, narrow, deep, chain = (Strategy("eagle", *shape) for shape in ((4, 2, 6), (4, 2, 3), (6, 2, 6), (6, 1, 6)))
    assert keys(wide) == (("draft_decode", 4, 2), ("draft_extend", 7, 0), ("target_verify", 7, 1))
    assert [one == other for one, other in zip(keys(wide), keys(narrow), strict=True)] == [True, False, False]
    assert [one == other for one, other in zip(keys(wide), keys(deep), strict=True)] == [False, True, True]
    assert [one == other for one, other in zip(keys(deep), keys(chain), strict=True)] == [False, True, False]
    assert keys(OFF) == (("draft_decode", 0, 1), ("draft_extend", 1, 0), ("target_verify", 1, 0))


def test_a_node_is_never_chosen_without_its_parent() -> None:
    """Not even where probabilities are 1, or nothing: then a child's score is its parent's."""
    top_k, levels = 2, 3
    count = top_k + (levels - 1) * top_k**2
    parents = [None, None, 0, 0, 1, 1, 2, 2, 4, 4]  # the best child of each goes on
    for scores in (torch.ones(1, count), torch.zeros(1, count), torch.tensor([[1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])):
        for verify in range(1, count + 1):
            places, tokens = likeliest(scores, torch.arange(count)[None] + 100, top_k, verify)
            chosen = places[0].tolist()
            assert chosen == sorted(set(chosen))
            assert tokens[0].tolist() == [place + 100 for place in chosen]
            assert all(parents[place] is None or parents[place] in chosen for place in chosen)


def run(**changes: object) -> RunConfig:
    return parse({"rollout": {"engine": "sglang"}, **changes})


def test_what_sglang_cannot_do_is_refused() -> None:
    check(run(), FACTS)
    with pytest.raises(ConfigError, match=r"rollout\.min_p=0\.1: SGLang ignores min_p"):
        check(run(rollout={"engine": "sglang", "min_p": 0.1}), FACTS)
    with pytest.raises(ConfigError, match=r"drafter\.recipe=eagle: SGLang has no such drafter for qwen3"):
        check(run(), replace(FACTS, family="qwen3"))
    beg = {
        "strategies": [{"depth": 2, "verify": 2}, {"drafter": "ngram", "depth": 3, "verify": 3}],
        "tuner": {"name": "beg", "thresholds": [1, 2]},
    }
    with pytest.raises(ConfigError, match=r"of drafter eagle alone.*tuner\.thresholds has 2 values"):
        check(run(speculation=beg), FACTS)
    check(run(speculation={"enabled": False}, rollout={"engine": "sglang", "min_p": 0.1}), replace(FACTS, family="qwen3"))


SPREAD: dict[str, Any] = {"rollout": {"engine": "sglang", "sglang": {"tensor_parallel": 2}}}
SHARDED: dict[str, Any] = {"cluster": {"learner": {"parallel": "fsdp"}}}


@pytest.mark.parametrize(
    ("changes", "drafter", "reason"),
    [
        (SPREAD, {}, "on several GPUs"),
        (SPREAD, {"recipe": "hass", "path": "auto"}, "on several GPUs"),
        (SPREAD, {"recipe": "eagle3"}, None),
        (SPREAD, {"path": "builtin"}, "on several GPUs"),
        (SHARDED, {}, "cluster.learner.parallel=fsdp"),
        (SHARDED, {"recipe": "eagle3"}, "cluster.learner.parallel=fsdp"),
        ({}, {}, None),
        (SPREAD | SHARDED, {"draft_vocabulary": 0}, None),
        (SPREAD | SHARDED, {"draft_vocabulary": 8193}, None),
        (SPREAD | SHARDED, {"pretrain_minutes": 0}, None),
        (SPREAD | SHARDED, {"path": "/a/drafter"}, None),
        (SPREAD | SHARDED | {"model": {"path": "tiny"}}, {"path": "builtin"}, None),
    ],
)
def test_a_drafter_that_sglang_could_not_take_is_not_pretrained(
    changes: dict[str, Any], drafter: dict[str, Any], reason: str | None
) -> None:
    """It would be told when the first round of it is over."""
    pretrained = {"path": None, "pretrain_minutes": 1} | drafter
    config = run(**{"model": {"path": "/a/model"}, "drafter": pretrained} | changes)
    wanted = pytest.raises(ConfigError, match=rf"^drafter\.draft_vocabulary=8192: .*{reason}.*; set it to 0 for all tokens")
    with wanted if reason else nullcontext():
        check(config, replace(FACTS, vocabulary=2 * 8192))
    with wanted if reason and drafter.get("path") != "auto" else nullcontext():
        check(config, replace(FACTS, vocabulary=2 * 8192), searched=False)


def test_ngrams_draft_if_no_strategy_asks_for_a_drafter() -> None:
    strategies = [{"drafter": "ngram", "depth": 4, "verify": 3}, {"drafter": "ngram", "depth": 2, "verify": 2}]
    config = run(speculation={"strategies": strategies}, drafter={"spot": {"enabled": False}})
    check(config, replace(FACTS, family="qwen3"))
    assert drafting(config.speculation, config.rollout.sglang) == "ngram"
    assert supported(config.speculation, "ngram").strategies == config.speculation.strategies[:1]
    with pytest.raises(ConfigError, match=r"drafter\.spot\.enabled: n-grams draft in this run"):
        check(run(speculation={"strategies": strategies}), FACTS)


def test_a_small_model_may_draft(random_model: Path) -> None:
    def small(**changes: object) -> RunConfig:
        data = {"rollout": {"engine": "sglang", "sglang": {"draft_model": str(random_model)}}, "drafter": {"spot": {"enabled": False}}}
        return run(**data | changes)

    facts = read_facts(random_model)
    check(small(), replace(facts, family="qwen3"))
    assert drafting(small().speculation, small().rollout.sglang) == "standalone"
    with pytest.raises(ConfigError, match=r"drafter\.spot\.enabled: the draft model drafts in this run"):
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
    made.begin_step(2)
    clock.now += 0.3
    made.begin_step(1)
    clock.now += 0.1
    made.end_step([1, 2])
    clock.now += 0.2
    made.end_step([0])
    (one,) = made.take_statistics()["arms"]
    assert (one["pulls"], one["accepted"]) == (2, 3)
    assert one["seconds"] == pytest.approx(0.4 + 0.2)


def test_results_that_belong_to_no_step_teach_nothing() -> None:
    made = policy(chains(2))
    made.end_step([1])
    made.begin_step(2)
    made.end_step([1])
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
    off, chain = made.strategies
    assert made.graph_sizes(off, [1, 2, 4, 8, 16, 32]) == [1, 2, 4, 8, 16, 32]
    assert made.graph_sizes(chain, [1, 2, 4, 8, 16, 32]) == [1, 2, 4, 8]


def test_a_useless_drafter_is_turned_off_and_a_good_one_is_used() -> None:
    """A drafted token costs a fifth of a plain step."""
    for drafts, wanted in ((0, 0), (4, 4)):
        clock = Clock()
        made = policy(chains(4, 2, tuner={"name": "goodput"}), clock)
        chosen = []
        for _ in range(400):
            chosen.append(made.begin_step(4).depth)
            clock.now += 0.01 + 0.002 * chosen[-1]
            made.end_step([min(drafts, chosen[-1])] * 4)
        assert chosen[200:].count(wanted) > 180


def test_ranks_do_what_rank_0_decides() -> None:
    """Which is told as a place among the strategies, off being the first."""
    made = StrategyPolicy(shapes((3, 2, 5), (1, 1, 1)), 0, 8, agree=lambda choice: {1: 2}[choice])
    made.begin()
    assert str(made.begin_step(2)) == "eagle d1 k1 v1"
    made.end_step([1, 0])
    taken = made.take_statistics()
    assert taken["arms"] == [], "nothing is learnt about an arm that was not used"
    assert taken["drafted_by_position"] == [2]
    assert taken["moments"][0][1:] == (2, "eagle d1 k1 v1")


def test_a_trees_levels_are_counted() -> None:
    made = policy(shapes((3, 4, 2)))
    made.begin_step(2)
    made.end_step([2, 1])
    taken = made.take_statistics()
    assert (taken["drafted_by_position"], taken["accepted_by_position"]) == ([2, 2], [2, 1]), "no level lies behind the last node"
    assert taken["arms"][0]["strategy"] == "eagle d3 k4 v2"


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
