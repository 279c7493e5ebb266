"""What an older run's configuration means today, by the schema alone, held against what the engine makes of it."""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest
from example_runs import run

from backend.models.baseline import with_defaults
from backend.services.runs.presets import presets
from dashboard.analysis.config_schema import whole_config
from dashboard.analysis.run_config import apart_from_seed
from engine.config import RunConfig, merged
from engine.config.algorithm import ALGORITHMS, SET_BY_NAME

SCHEMA = RunConfig.model_json_schema()
CHANGES: Mapping[str, dict[str, Any]] = {
    "nothing": {},
    "dapo": {"algorithm": {"name": "dapo"}},
    "beg": {"speculation": {"tuner": {"name": "beg"}}, "cluster": {"learner": {"lora": {"rank": 8}}}},
    "a task of its own": {"task": {"name": "math", "path": "p.jsonl"}, "rollout": {"engine": "sglang"}},
}
LEFT_OPEN = {"speculation", "speculation.strategies"}
"""The schema has no default for a list that is made."""


def whole(changes: dict[str, Any]) -> dict[str, Any]:
    return RunConfig.model_validate(changes).model_dump(mode="json")


def places(section: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every setting and every section."""
    for name, value in section.items() if isinstance(section, dict) else enumerate(section) if isinstance(section, list) else ():
        if isinstance(name, str):
            yield (*at, name)
        yield from places(value, (*at, name))


def without(config: dict[str, Any], place: tuple[Any, ...]) -> dict[str, Any]:
    lacking = deepcopy(config)
    section: Any = lacking
    for name in place[:-1]:
        section = section[name]
    del section[place[-1]]
    return lacking


def same_group(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return apart_from_seed(run("a", {"name": "a"} | one)) == apart_from_seed(run("b", {"name": "a"} | other))


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_what_a_run_lacks_is_what_the_engine_takes_for_it(changes: dict[str, Any]) -> None:
    full, left_open = whole(changes), set()
    assert whole_config(SCHEMA, full) == full
    for place in places(full):
        lacking = without(full, place)
        found, meant = whole_config(SCHEMA, lacking), dict(with_defaults(lacking))
        if meant == lacking:
            continue  # the engine would refuse it: no run has it
        assert same_group(dict(with_defaults(found)), meant), f"without {place} it means something else"
        if not same_group(found, meant):
            left_open.add(".".join(map(str, place)))
    assert left_open <= LEFT_OPEN | ({f"algorithm.{name}" for name in SET_BY_NAME} if "algorithm" in changes else set())
    assert same_group(whole_config(SCHEMA, {"speculation": {"strategies": full["speculation"]["strategies"]}}), whole({}))


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.name)
def test_runs_before_and_after_a_setting_came_are_one_group(preset: Any) -> None:
    now = whole(preset.config)
    before = without(without(now, ("rollout", "scheduling")), ("drafter", "draft_vocabulary"))
    assert not same_group(before, now)
    assert same_group(whole_config(SCHEMA, before), whole_config(SCHEMA, now))


def test_a_run_that_sets_it_otherwise_stays_apart() -> None:
    now = whole({})
    before = without(now, ("algorithm", "warmup_steps"))
    other = merged(now, {"algorithm": {"warmup_steps": 5}})
    assert not same_group(whole_config(SCHEMA, before), whole_config(SCHEMA, other))
    assert not same_group(whole_config(SCHEMA, merged(before, {"algorithm": {"steps": 7}})), whole_config(SCHEMA, now))


@pytest.mark.parametrize("name", [name for name, parts in ALGORITHMS.items() if "clip_high" in parts])
def test_what_an_algorithm_sets_is_not_taken_for_the_schemas_default(name: str) -> None:
    """DAPO clips at 0.28, and not at 0.2 as the schema says."""
    lacking = without(whole({"algorithm": {"name": name}}), ("algorithm", "clip_high"))
    wrong = merged(lacking, {"algorithm": {"clip_high": 0.2}})
    assert not same_group(whole_config(SCHEMA, lacking), whole_config(SCHEMA, wrong))


def test_what_this_version_does_not_know_stays_as_it_is() -> None:
    retired = whole({}) | {"speculation": {"tuner": {"name": "retired", "rate": 2}, "odd": 1}, "old_section": {"a": 1}, "task": "mine"}
    found = whole_config(SCHEMA, retired)
    assert found["speculation"]["tuner"] == {"name": "retired", "rate": 2}
    assert (found["speculation"]["odd"], found["old_section"], found["task"]) == (1, {"a": 1}, "mine")
    assert not same_group(found, whole_config(SCHEMA, whole({})))


def test_the_given_configuration_is_left_alone() -> None:
    given: dict[str, Any] = {"algorithm": {"steps": 3}}
    text = json.dumps(SCHEMA)
    assert whole_config(SCHEMA, given)["algorithm"]["group_size"] == 8
    assert (given, json.dumps(SCHEMA)) == ({"algorithm": {"steps": 3}}, text)
