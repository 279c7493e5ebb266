import re

import pytest

from backend.presets import presets
from backend.schemas.runs import Preset
from backend.services.listing import CONDITION
from dashboard.fields import Config
from dashboard.panels.costs import ALIKE, conditions
from engine.config import merged


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.name)
def test_a_run_like_it_can_be_asked_for(preset: Preset) -> None:
    found = conditions(preset.config)
    assert len(found) == len(ALIKE)
    assert all(re.fullmatch(CONDITION, condition) for condition in found)
    assert f"config.model.path={preset.config['model']['path']}" in found


def test_texts_that_are_too_long_are_cut() -> None:
    config: Config = merged(presets()[0].config, {"model": {"path": "x" * 500}, "speculation": {"enabled": False}})
    found = conditions(config)
    assert all(re.fullmatch(CONDITION, condition) for condition in found)
    assert "config.speculation.enabled=false" in found
