"""Every rule of the sections about sampling and speculation: what is refused, in which words, and what just passes."""

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.config import GoodputConfig, RunConfig, SpeculationConfig, StrategyConfig, load, merged, parse
from engine.config.algorithm import AlgorithmConfig
from engine.config.task import MathConfig
from engine.config.yaml_text import read_yaml
from engine.errors import ConfigError

RISING = "speculation.tuner.beg: thresholds must start with 1 and rise, such as [1, 3, 9]"


def speculation(**changes: Any) -> dict[str, Any]:
    return {"speculation": changes}


def strategy(**shape: Any) -> dict[str, Any]:
    return speculation(strategies=[shape])


def beg(thresholds: list[int] | None, *verify: int) -> dict[str, Any]:
    return speculation(tuner={"name": "beg", "thresholds": thresholds}, strategies=[{"depth": v, "verify": v} for v in verify])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            strategy(depth=3, top_k=2, verify=11),
            "speculation.strategies.0: verify=11 exceeds the 10 tokens that depth=3 and top_k=2 draft; lower it, or raise one of those",
        ),
        (
            {"cluster": {"workers": True}},
            "cluster.workers: Input should be a valid integer, unable to parse string as an integer (got 'true')",
        ),
        (
            {"drafter": {"pretrain_minutes": True}},
            "drafter.pretrain_minutes: Input should be a valid number, unable to parse string as a number (got 'true')",
        ),
        (
            {"drafter": {"pretrain_minutes": 1}, "rollout": {"max_new_tokens": 1}},
            "rollout.max_new_tokens=1: there is nothing to draft in responses of one token; raise it to pretrain a drafter",
        ),
        ({"cluster": {"workers": 2, "nodes": 3}}, "cluster: nodes=3 exceeds workers=2: a machine would have nothing to do; lower it"),
        (strategy(depth=4, verify=5), "speculation.strategies.0: verify=5 exceeds the 4 tokens that depth=4 and top_k=1 draft"),
        (
            strategy(drafter="ngram", depth=8, top_k=2, verify=8),
            "speculation.strategies.0: top_k=2, but ngram drafts are chains; set top_k to 1, or drafter to eagle",
        ),
        (strategy(drafter="none", depth=1, verify=1), "speculation.strategies.0.drafter: Input should be 'eagle' or 'ngram' (got 'none')"),
        (strategy(depth=33, verify=1), "speculation.strategies.0.depth: Input should be less than or equal to 32 (got 33)"),
        (strategy(depth=8, top_k=17, verify=8), "speculation.strategies.0.top_k: Input should be less than or equal to 16 (got 17)"),
        (strategy(depth=8, top_k=0, verify=1), "speculation.strategies.0.top_k: Input should be greater than or equal to 1 (got 0)"),
        (strategy(depth=32, top_k=4, verify=129), "speculation.strategies.0.verify: Input should be less than or equal to 128 (got 129)"),
        (speculation(strategies=[]), "speculation.strategies: must name at least one; leave it out for the usual ones, or set"),
        (
            beg([1, 4], 2, 4, 8),
            "speculation: tuner.thresholds has 2 values, and the strategies have 3 distinct values of verify; give 3, or null",
        ),
        (beg([2, 4], 2, 4), RISING),
        (beg([1, 4, 4], 2, 4, 8), RISING),
        (beg([], 2), RISING),
        (speculation(tuner={"name": "beg", "epsilon": 1.5}), "speculation.tuner.beg.epsilon: Input should be less than or equal to 1"),
        (speculation(tuner={"name": "beg", "window": 0}), "speculation.tuner.beg.window: Input should be greater than or equal to 1"),
        (speculation(tuner={"name": "goodput", "memory": 15}), "speculation.tuner.goodput.memory: Input should be greater than or equal"),
        (speculation(tuner={"name": "goodput", "widen": -0.1}), "speculation.tuner.goodput.widen: Input should be greater than or equal"),
        (speculation(tuner={"name": "goodput", "interval": 0}), "speculation.tuner.goodput.interval: Input should be greater than or"),
        (speculation(tuner={"name": "goodput", "thresholds": [1]}), "speculation.tuner.goodput.thresholds: unknown key"),
        (speculation(tuner={"name": "fixed", "epsilon": 0}), "speculation.tuner.fixed.epsilon: unknown key"),
        (speculation(tuner={"name": "greedy"}), "speculation.tuner.name: there is no 'greedy'; choose one of 'beg', 'goodput', 'fixed'"),
        ({"task": {}}, "task.name: missing"),
        *(({"name": name}, "name: nothing of it can be seen; give it a letter") for name in (" ", "\u200b", "\u3164\u00a0")),
        ({"algorithm": 3}, "algorithm: has to be a section, with a line for each setting (got 3)"),
        ({"task": "countdown"}, "task: has to be a section"),
        (
            speculation(suffix={"memory_bytes": 2**16 - 1}),
            "speculation.suffix.memory_bytes: Input should be greater than or equal to 65536",
        ),
        (speculation(suffix={"depth": 4}), "speculation.suffix.depth: unknown key"),
        (speculation(hysteresis=-0.1), "speculation.hysteresis: Input should be greater than or equal to 0 (got -0.1)"),
        (speculation(hysteresis=11), "speculation.hysteresis: Input should be less than or equal to 10 (got 11)"),
        (speculation(threshold=0), "speculation.threshold: Input should be greater than or equal to 1 (got 0)"),
        ({"algorithm": {"learning_rate": math.inf}}, "algorithm.learning_rate: Input should be a finite number (got inf)"),
        (
            {"algorithm": {"learning_rate": 5e-324}},
            "algorithm.learning_rate: Input should be greater than or equal to 0.000000000001 (got 5e-324)",
        ),
        (
            {"drafter": {"pretrain_learning_rate": 0}},
            "drafter.pretrain_learning_rate: Input should be greater than or equal to 0.000000000001 (got 0)",
        ),
        (
            {"drafter": {"spot": {"learning_rate": 1e-13}}},
            "drafter.spot.learning_rate: Input should be greater than or equal to 0.000000000001",
        ),
        ({"drafter": {"spot": {"first_learning_rate": 1.5}}}, "drafter.spot.first_learning_rate: Input should be less than or equal to 1"),
        ({"drafter": {"spot": {"trigger": {"drift": math.nan}}}}, "drafter.spot.trigger.drift: Input should be"),
        ({"drafter": {"spot": {"trigger": {"drift": -math.inf}}}}, "drafter.spot.trigger.drift: Input should be greater than"),
        ({"algorithm": {"max_gradient_norm": "NaN"}}, "algorithm.max_gradient_norm: Input should be greater than 0 (got 'NaN')"),
        ({"drafter": {"spot": {"first_set_up": math.inf}}}, "drafter.spot.first_set_up: Input should be a finite number (got inf)"),
        ({"model": {"path": "x" * 256}}, "model.path: no path: one has at most"),
        ({"drafter": {"pretrain_responses": "/x" * 1025}}, "drafter.pretrain_responses: no path: one has at most"),
        ({"rollout": {"min_p": "x" * 2**20}}, f"(got '{'x' * 200}...')"),
        ({"rollout": {"min_p": 1}}, "rollout.min_p: Input should be less than 1 (got 1)"),
        ({"rollout": {"min_p": -0.1}}, "rollout.min_p: Input should be greater than or equal to 0 (got -0.1)"),
        ({"rollout": {"stop": ["end", ""]}}, "rollout.stop.1: String should have at least 1 character (got '')"),
        ({"rollout": {"stop": "end"}}, "rollout.stop: Input should be a list (got 'end')"),
    ],
    ids=lambda value: value.partition(":")[0] if isinstance(value, str) else "",
)
def test_a_wrong_value_is_named_in_one_line(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse(data)
    assert message in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1, "one fault, one line"


def test_every_wrong_strategy_is_named() -> None:
    with pytest.raises(ConfigError) as refusal:
        parse(speculation(strategies=[{"depth": 3, "verify": 4}, {"depth": 2, "verify": 2}, {"depth": 0, "verify": 1}]))
    fields = [line.partition(":")[0] for line in str(refusal.value).splitlines()]
    assert fields == ["speculation.strategies.0", "speculation.strategies.2.depth"]


@pytest.mark.parametrize(
    "data",
    [
        strategy(depth=3, top_k=2, verify=10),
        strategy(depth=4, verify=4),
        strategy(drafter="ngram", depth=8, verify=8),
        beg([1, 4, 9], 2, 4, 8),
        beg([1], 3, 3),
        beg(None, 2, 4, 8),
        speculation(suffix={"enabled": False, "memory_bytes": 2**16}, hysteresis=0),
        speculation(tail_requests=4),
        {"rollout": {"min_p": 0.99, "stop": ["</answer>", "\n\n"]}},
    ],
)
def test_what_just_passes(data: dict[str, Any]) -> None:
    parse(data)


def test_a_limit_may_be_infinite_where_that_means_something_and_json_holds_it() -> None:
    asked = parse(yaml.safe_load("{algorithm: {max_gradient_norm: .inf}, drafter: {spot: {trigger: {drift: .inf}}}}"))
    assert (asked.algorithm.max_gradient_norm, asked.drafter.spot.trigger.drift) == (math.inf, math.inf)
    sent = json.dumps(asked.model_dump(mode="json"), allow_nan=False)
    assert parse(json.loads(sent)) == asked
    assert RunConfig.model_validate_json(asked.model_dump_json()) == asked
    assert parse(yaml.safe_load(yaml.safe_dump(json.loads(sent)))) == asked


def test_verify_may_be_as_large_as_the_drafted_tree() -> None:
    """Counted level by level: each of the ``top_k`` branches that go on has ``top_k`` children."""
    for depth, top_k in product(range(1, 6), range(1, 5)):
        drafted = sum((1 if level == 0 else top_k) * top_k for level in range(depth))
        StrategyConfig(depth=depth, top_k=top_k, verify=drafted)
        with pytest.raises(ValueError, match=f"verify={drafted + 1} exceeds the {drafted} tokens"):
            StrategyConfig(depth=depth, top_k=top_k, verify=drafted + 1)


def test_the_defaults_speculate_by_goodput_with_every_drafter() -> None:
    default = RunConfig().speculation
    assert (default.enabled, default.threshold, default.tuner, default.suffix.enabled) == (True, 64, GoodputConfig(), True)
    assert {strategy.drafter for strategy in default.strategies} == {"eagle", "ngram"}
    assert {strategy.top_k > 1 for strategy in default.strategies} == {True, False}
    assert default == SpeculationConfig()


def test_a_configuration_survives_yaml() -> None:
    config = parse({"rollout": {"stop": ["\n\n"], "min_p": 0.05}} | beg([1, 4], 2, 4))
    assert parse(yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json")))) == config


def test_changes_are_merged_section_by_section() -> None:
    base = {"seed": 1, "rollout": {"temperature": 0.5, "top_p": 0.9}}
    assert merged(base, {"seed": 2, "rollout": {"top_p": 1.0}}) == {"seed": 2, "rollout": {"temperature": 0.5, "top_p": 1.0}}


def test_another_name_takes_what_the_old_one_stood_for_with_it() -> None:
    base = parse({"algorithm": {"name": "dapo", "steps": 7}}).model_dump(mode="json")
    changed = parse(merged(base, {"algorithm": {"name": "rloo"}, "task": {"name": "math", "path": "x.jsonl"}}))
    assert changed.algorithm == AlgorithmConfig(name="rloo", steps=7)
    assert changed.task == MathConfig(path=Path("x.jsonl"))
    assert parse(merged(base, {"algorithm": {"name": "dapo", "steps": 8}})).algorithm.clip_high == 0.28


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: one\nname: two\n", "name is given twice"),
        ("drafter: {path: null}\ncluster: {workers: 1}\ndrafter: {kind: eagle}\n", "drafter is given twice"),
        ("cluster: {workers: 1, workers: 2}\n", "workers is given twice"),
    ],
)
def test_a_key_that_is_given_twice_is_refused(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says):
        load(file)


def test_what_is_merged_in_may_be_given_anew() -> None:
    one = "one: &one\n  a: 1\n  b: &two {<<: {c: 1}, c: 2}\n"
    found = read_yaml(one + "other: {<<: *one, <<: *two, a: 2, 1: 3, '1': 4}\n")
    assert (found["one"]["b"], found["other"]["a"], found["other"][1], found["other"]["1"]) == ({"c": 2}, 2, 3, 4)
