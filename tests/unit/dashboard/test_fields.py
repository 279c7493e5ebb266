from typing import Any

import pytest

from backend.presets import presets
from dashboard.fields import changed, field, value
from dashboard.panels.form import COLUMNS, TASK_FIELDS
from engine.config import RunConfig

SCHEMA = RunConfig.model_json_schema()


def test_a_field_carries_the_schema_s_help_limits_and_default() -> None:
    steps = field(SCHEMA, "algorithm.steps", {})
    assert (steps.kind, steps.default, steps.help) == ("integer", 100, "RL steps (at least 1, at most 1,000,000)")
    assert field(SCHEMA, "algorithm.learning_rate", {}).help == "above 0, at most 1"


def test_choices_come_from_enums_and_from_unions() -> None:
    assert field(SCHEMA, "cluster.device", {}).options == ("auto", "cpu", "cuda")
    task = field(SCHEMA, "task.name", {})
    assert (task.kind, set(task.options), task.default) == ("choice", {"countdown", "math", "choice", "code", "function"}, "countdown")


def test_the_tuner_is_a_choice_whose_default_is_the_schema_s() -> None:
    tuner = field(SCHEMA, "speculation.tuner.name", {})
    assert (tuner.kind, set(tuner.options), tuner.default) == ("choice", {"beg", "goodput", "fixed"}, "goodput")
    assert tuner.help.startswith("What chooses the strategy")
    assert field(SCHEMA, "speculation.tuner.interval", {}).default == 8
    assert field(SCHEMA, "speculation.tuner.epsilon", {"speculation": {"tuner": {"name": "beg"}}}).default == 0.1
    before: dict[str, Any] = {"speculation": {"threshold": 8, "tuner": {"name": "goodput", "interval": 4}}}
    assert changed(before, tuner, "beg") == {"speculation": {"threshold": 8, "tuner": {"name": "beg"}}}


def test_every_field_of_the_form_is_in_the_schema_and_a_preset_changes_none() -> None:
    for preset in presets():
        entries = [entry for groups in COLUMNS for entries in groups.values() for entry in entries]
        for path, _ in [*entries, *TASK_FIELDS[preset.config["task"]["name"]]]:
            spec = field(SCHEMA, path, preset.config)
            assert changed(preset.config, spec, value(preset.config, spec)) == preset.config
    speculation = ("hysteresis", "tuner.name", "suffix.enabled", "tail_requests")
    assert all(field(SCHEMA, f"speculation.{path}", {}).help for path in speculation)


def test_fields_of_a_union_are_those_of_the_chosen_member() -> None:
    assert field(SCHEMA, "task.four_numbers", {}).kind == "number"
    assert field(SCHEMA, "task.path", {"task": {"name": "math"}}).kind == "string"
    with pytest.raises(KeyError):
        field(SCHEMA, "task.path", {})


def test_a_field_that_may_be_null_is_nullable() -> None:
    path = field(SCHEMA, "drafter.path", {})
    assert (path.kind, path.nullable, path.default) == ("string", True, "builtin")


def test_nested_booleans() -> None:
    assert field(SCHEMA, "drafter.spot.enabled", {}).kind == "boolean"


def test_a_section_that_is_no_mapping_reads_as_empty() -> None:
    assert field(SCHEMA, "task.name", {"task": "nonsense"}).default == "countdown"
    assert field(SCHEMA, "drafter.spot.enabled", {"drafter": None}).default is True


def test_value_is_the_configuration_s_or_the_default() -> None:
    steps = field(SCHEMA, "algorithm.steps", {})
    assert value({"algorithm": {"steps": 3}}, steps) == 3
    assert value({"algorithm": {}}, steps) == 100
    assert value({"algorithm": "nonsense"}, steps) == 100


def test_changed_leaves_the_original_alone() -> None:
    before: dict[str, Any] = {"algorithm": {"steps": 3}}
    assert changed(before, field(SCHEMA, "algorithm.group_size", {}), 4) == {"algorithm": {"steps": 3, "group_size": 4}}
    assert before == {"algorithm": {"steps": 3}}
    assert changed({}, field(SCHEMA, "drafter.spot.enabled", {}), False) == {"drafter": {"spot": {"enabled": False}}}


def test_another_task_forgets_the_settings_of_the_old_one() -> None:
    before: dict[str, Any] = {"name": "run", "task": {"name": "countdown", "four_numbers": 0.5}}
    assert changed(before, field(SCHEMA, "task.name", before), "math")["task"] == {"name": "math"}
    assert changed(before, field(SCHEMA, "name", {}), "other") == {**before, "name": "other"}


def test_another_algorithm_forgets_what_the_old_one_set_and_nothing_else() -> None:
    before: dict[str, Any] = {"algorithm": {"name": "grpo", "steps": 3, "clip_high": 0.2, "learning_rate": 1e-4}}
    name = field(SCHEMA, "algorithm.name", before)
    assert changed(before, name, "dapo") == {"algorithm": {"name": "dapo", "steps": 3, "learning_rate": 1e-4}}
    assert changed(before, name, "grpo") == before
