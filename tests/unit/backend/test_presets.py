from backend.presets import preset, presets
from engine.config import RunConfig


def test_presets_are_complete_configurations() -> None:
    assert {preset.name for preset in presets()} == {"demo-plain", "demo-tlt", "countdown-100", "gsm8k"}
    for one in presets():
        assert RunConfig.model_validate(one.config).model_dump(mode="json") == one.config


def test_the_demo_compares_like_with_like() -> None:
    plain, tlt = (RunConfig.model_validate(preset(name).config) for name in ("demo-plain", "demo-tlt"))
    assert (plain.speculation.enabled, tlt.speculation.enabled) == (False, True)
    same = {"name": "", "speculation": tlt.speculation}
    assert plain.model_copy(update=same) == tlt.model_copy(update=same)


def test_countdown_100_has_100_steps() -> None:
    assert RunConfig.model_validate(preset("countdown-100").config).algorithm.steps == 100
