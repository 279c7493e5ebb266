from typing import Any

import pytest

from backend.services.runs.presets import presets
from dashboard.views.new.config_form import MAIN, groups, sections
from dashboard.views.new.schema_fields import field, paths, value, with_value
from engine.config import RunConfig
from longtail.schemas.runs import Preset

SCHEMA = RunConfig.model_json_schema()


def test_a_field_carries_the_schema_s_help_limits_and_default() -> None:
    steps = field(SCHEMA, "algorithm.steps", {})
    limits = "(at least 0, at most 1,000,000)"
    assert (steps.kind, steps.default) == ("integer", 100)
    assert steps.help == f"RL steps; 0 only pretrains the drafter (drafter.pretrain_minutes) {limits}"
    assert field(SCHEMA, "algorithm.max_gradient_norm", {}).help == "Longer gradients are scaled down to it; .inf: none are (above 0)"


def test_choices_come_from_enums_and_from_unions() -> None:
    assert field(SCHEMA, "cluster.device", {}).options == ("auto", "cpu", "cuda")
    packed = field(SCHEMA, "cluster.learner.packed", {})
    assert (packed.kind, packed.options, packed.path in paths(SCHEMA, {})) == ("choice", ("auto", True, False), True)
    task = field(SCHEMA, "task.name", {})
    tasks = {"countdown", "word_problems", "math", "choice", "code", "function", "prompts"}
    assert (task.kind, set(task.options), task.default) == ("choice", tasks, "countdown")


def test_the_tuner_is_a_choice_whose_default_is_the_schema_s() -> None:
    tuner = field(SCHEMA, "speculation.tuner.name", {})
    assert (tuner.kind, set(tuner.options), tuner.default) == ("choice", {"beg", "goodput", "fixed"}, "goodput")
    assert tuner.help.startswith("What chooses the strategy")
    assert field(SCHEMA, "speculation.tuner.interval", {}).default == 8
    assert field(SCHEMA, "speculation.tuner.epsilon", {"speculation": {"tuner": {"name": "beg"}}}).default == 0.1
    before: dict[str, Any] = {"speculation": {"threshold": 8, "tuner": {"name": "goodput", "interval": 4}}}
    assert with_value(before, tuner, "beg") == {"speculation": {"threshold": 8, "tuner": {"name": "beg"}}}


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.name)
def test_the_form_has_every_setting_with_its_help_and_a_preset_changes_none(preset: Preset) -> None:
    entries = {section: [path for each in groups(SCHEMA, preset.config, section).values() for path in each] for section in sections(SCHEMA)}
    everything = paths(SCHEMA, preset.config)
    assert set(entries.pop(MAIN)) <= set(everything)
    drawn = [path for each in entries.values() for path in each]
    assert sorted(drawn) == sorted(path for path in everything if "." in path)
    for path in everything:
        spec = field(SCHEMA, path, preset.config)
        assert with_value(preset.config, spec, value(preset.config, spec)) == preset.config
        assert spec.help, f"{path} has no help"


def test_of_a_run_that_only_trains_a_drafter_the_main_settings_say_how() -> None:
    config: dict[str, Any] = {"algorithm": {"steps": 0}, "drafter": {"pretrain_minutes": 5}}
    shown = {path for entries in groups(SCHEMA, config, MAIN).values() for path in entries}
    assert {path for path in paths(SCHEMA, config) if path.startswith("drafter.pretrain_")} <= shown


def test_settings_are_those_of_the_chosen_member_and_no_lists() -> None:
    found = paths(SCHEMA, {"task": {"name": "math"}, "speculation": {"tuner": {"name": "beg"}}})
    assert {"seed", "task.name", "task.path", "speculation.tuner.epsilon", "drafter.spot.trigger.patience"} <= set(found)
    assert not {"task.four_numbers", "speculation.tuner.interval", "speculation.strategies", "rollout.stop"} & set(found)
    assert len(set(found)) == len(found)


def test_a_choice_may_be_open() -> None:
    assert (field(SCHEMA, "algorithm.loss", {}).open, field(SCHEMA, "algorithm.kl", {}).open) == (True, False)


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
    assert with_value(before, field(SCHEMA, "algorithm.group_size", {}), 4) == {"algorithm": {"steps": 3, "group_size": 4}}
    assert before == {"algorithm": {"steps": 3}}
    assert with_value({}, field(SCHEMA, "drafter.spot.enabled", {}), False) == {"drafter": {"spot": {"enabled": False}}}


def test_another_task_forgets_the_settings_of_the_old_one() -> None:
    before: dict[str, Any] = {"name": "run", "task": {"name": "countdown", "four_numbers": 0.5}}
    assert with_value(before, field(SCHEMA, "task.name", before), "math")["task"] == {"name": "math"}
    assert with_value(before, field(SCHEMA, "name", {}), "other") == {**before, "name": "other"}


def test_another_algorithm_forgets_what_the_old_one_set_and_nothing_else() -> None:
    before: dict[str, Any] = {"algorithm": {"name": "grpo", "steps": 3, "clip_high": 0.2, "learning_rate": 1e-4}}
    name = field(SCHEMA, "algorithm.name", before)
    assert with_value(before, name, "dapo") == {"algorithm": {"name": "dapo", "steps": 3, "learning_rate": 1e-4}}
    assert with_value(before, name, "grpo") == before
