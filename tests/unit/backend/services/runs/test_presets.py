from pathlib import Path

import pytest
from bare_model import make_bare_model

from backend.services.runs.presets import preset, presets
from backend.services.runs.validation import validated_config
from backend.settings import Settings
from engine.config import RunConfig, merged
from engine.preflight import fits

QUESTIONS = Path(__file__).parents[4] / "data" / "gsm8k_sample.jsonl"


def test_presets_are_complete_configurations() -> None:
    demos = {"demo-plain", "demo-tlt", "real-plain", "real-tlt", "real-drafter"}
    names = demos | {"countdown-100", "gsm8k", "drafter", "gpu-node", "gpu-cluster"}
    assert {preset.name for preset in presets()} == names
    for one in presets():
        assert RunConfig.model_validate(one.config).model_dump(mode="json") == one.config


@pytest.mark.parametrize("name", [preset.name for preset in presets()])
def test_a_preset_is_accepted_once_its_folders_are_there(name: str, tmp_path: Path) -> None:
    config = preset(name).config
    folders = {"model": {"path": str(make_bare_model(tmp_path / "model"))}} if config["model"]["path"] != "tiny" else {}
    data = {"task": {"path": str(QUESTIONS)}} if "path" in config["task"] else {}
    settings = Settings(home=tmp_path, ray_addresses=("first-machine:6379",))
    accepted = validated_config(merged(config, folders | data), settings, "admin")
    assert accepted.cluster.workers <= accepted.algorithm.prompts_per_step
    if name.startswith("gpu"):
        assert (accepted.rollout.engine, accepted.cluster.device) == ("sglang", "cuda")


@pytest.mark.parametrize("demo", ["demo", "real"])
def test_a_demo_compares_like_with_like(demo: str) -> None:
    plain, tlt = (RunConfig.model_validate(preset(f"{demo}-{name}").config) for name in ("plain", "tlt"))
    assert (plain.speculation.enabled, tlt.speculation.enabled) == (False, True)
    same = {"name": "", "speculation": tlt.speculation, "drafter": tlt.drafter}
    assert plain.model_copy(update=same) == tlt.model_copy(update=same)


def test_the_drafter_of_the_real_demo_fits_its_run() -> None:
    drafter, tlt = (RunConfig.model_validate(preset(f"real-{name}").config) for name in ("drafter", "tlt"))
    assert (drafter.algorithm.steps, tlt.drafter.path) == (0, "auto")
    assert (drafter.task, drafter.rollout) == (tlt.task, tlt.rollout)
    assert fits({"base_model": drafter.model.path, "recipe": drafter.drafter.recipe}, tlt)


def test_a_trained_drafter_fits_a_run_of_its_model_that_says_nothing_of_recipes() -> None:
    trained = RunConfig.model_validate(preset("drafter").config)
    run = RunConfig.model_validate({"drafter": {"path": "auto"}})
    assert fits({"base_model": trained.model.path, "recipe": trained.drafter.recipe}, run)


def test_countdown_100_has_100_steps() -> None:
    assert RunConfig.model_validate(preset("countdown-100").config).algorithm.steps == 100
