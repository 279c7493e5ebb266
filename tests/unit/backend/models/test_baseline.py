import copy
from typing import Any

import pytest

from backend.models.baseline import confounders, is_plain, likeness, likeness_form
from engine.config import RunConfig

TLT = RunConfig(name="tlt").model_dump(mode="json")
PLAIN = TLT | {"name": "plain", "speculation": TLT["speculation"] | {"enabled": False}}


def test_name_switch_and_number_of_steps_do_not_tell_runs_apart() -> None:
    assert likeness(TLT | {"algorithm": TLT["algorithm"] | {"steps": 7}}) == likeness(TLT)
    assert likeness(PLAIN) == likeness(TLT) == likeness(dict(reversed(PLAIN.items())))
    others: list[dict[str, object]] = [
        {"seed": 1},
        {"algorithm": TLT["algorithm"] | {"group_size": 2}},
        {"speculation": TLT["speculation"] | {"threshold": 3}},
        {"speculation": "mine"},
    ]
    for other in others:
        assert likeness(TLT | other) != likeness(TLT)


def without(config: dict[str, Any], path: str) -> dict[str, Any]:
    """As a version has recorded it that did not know this setting."""
    *sections, field = path.split(".")
    earlier = copy.deepcopy(config)
    section = earlier
    for name in sections:
        section = section[name]
    del section[field]
    return earlier


@pytest.mark.parametrize("later", ["rollout.scheduling.partial", "speculation.threshold", "algorithm.kl_coefficient", "evaluation"])
def test_a_run_from_before_a_setting_is_like_one_with_its_default(later: str) -> None:
    assert likeness(without(TLT, later)) == likeness(PLAIN)
    changed = RunConfig.model_validate({"algorithm": {"kl_coefficient": 0.5}}).model_dump(mode="json")
    assert likeness(without(TLT, later)) != likeness(changed)


def test_likeness_tells_by_which_settings_it_was_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    before = likeness_form()
    assert likeness(TLT).startswith(before)
    likeness_form.cache_clear()
    monkeypatch.setattr(RunConfig, "model_json_schema", lambda: {"properties": {"name": {"default": "another"}}})
    assert likeness_form() != before
    likeness_form.cache_clear()


def test_what_is_trained_is_not_how_it_is_trained() -> None:
    how = ["cluster.workers", "cluster.learner.parallel", "speculation.enabled", "rollout.max_batch"]
    what = ["cluster.learner.lora", "cluster.learner.lora.rank", "model.path", "rollout.max_new_tokens"]
    assert confounders([*how, *what]) == what


@pytest.mark.parametrize(
    ("config", "plain"),
    [(TLT, False), (PLAIN, True), ({}, False), ({"speculation": "mine"}, False), ({"speculation": {"enabled": False}}, True)],
)
def test_speculation_is_on_unless_turned_off(config: dict[str, object], plain: bool) -> None:
    assert is_plain(config) == plain
    assert len(likeness(config)) == 16
