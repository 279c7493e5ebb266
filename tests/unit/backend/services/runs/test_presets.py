from pathlib import Path

import pytest
from bare_model import make_bare_model

from backend.services.runs.presets import preset, presets
from backend.services.runs.validation import validated_config
from backend.settings import Settings
from engine.config import RunConfig, merged

QUESTIONS = Path(__file__).parents[4] / "data" / "gsm8k_sample.jsonl"


def test_presets_are_complete_configurations() -> None:
    names = {"demo-plain", "demo-tlt", "countdown-100", "gsm8k", "drafter", "gpu-node", "gpu-cluster"}
    assert {preset.name for preset in presets()} == names
    for one in presets():
        assert RunConfig.model_validate(one.config).model_dump(mode="json") == one.config


@pytest.mark.parametrize("name", [preset.name for preset in presets()])
def test_a_preset_is_accepted_once_its_folders_are_there(name: str, tmp_path: Path) -> None:
    config = preset(name).config
    folders = {"model": {"path": str(make_bare_model(tmp_path / "model"))}} if config["model"]["path"] != "tiny" else {}
    data = {"task": {"path": str(QUESTIONS)}} if "path" in config["task"] else {}
    accepted = validated_config(merged(config, folders | data), Settings(home=tmp_path))
    assert accepted.cluster.workers <= accepted.algorithm.prompts_per_step
    if name.startswith("gpu"):
        assert (accepted.rollout.engine, accepted.cluster.device) == ("sglang", "cuda")


def test_the_demo_compares_like_with_like() -> None:
    plain, tlt = (RunConfig.model_validate(preset(name).config) for name in ("demo-plain", "demo-tlt"))
    assert (plain.speculation.enabled, tlt.speculation.enabled) == (False, True)
    same = {"name": "", "speculation": tlt.speculation}
    assert plain.model_copy(update=same) == tlt.model_copy(update=same)


def test_countdown_100_has_100_steps() -> None:
    assert RunConfig.model_validate(preset("countdown-100").config).algorithm.steps == 100
