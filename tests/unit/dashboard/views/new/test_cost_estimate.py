import re

import pytest

from backend.services.runs.listing import CONDITION
from backend.services.runs.presets import presets
from dashboard.data.similar_runs import SIMILAR_IN, conditions
from dashboard.views.new.schema_fields import Config
from engine.config import merged
from longtail.schemas.runs import Preset


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.name)
def test_a_run_like_it_can_be_asked_for(preset: Preset) -> None:
    found = conditions(preset.config)
    assert len(found) == len(SIMILAR_IN)
    assert all(re.fullmatch(CONDITION, condition) for condition in found)
    assert f"config.model.path={preset.config['model']['path']}" in found


def test_texts_that_are_too_long_are_cut() -> None:
    config: Config = merged(presets()[0].config, {"model": {"path": "x" * 500}, "speculation": {"enabled": False}})
    found = conditions(config)
    assert all(re.fullmatch(CONDITION, condition) for condition in found)
    assert "config.speculation.enabled=false" in found
