import re

import pytest
from example_runs import run

from backend.services.runs.listing import CONDITION
from backend.services.runs.presets import presets
from dashboard.analysis.start_of_run import SimilarRun
from dashboard.data.similar_runs import SIMILAR_IN, conditions
from dashboard.views.new.cost_estimate import duration_lines
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


@pytest.mark.parametrize(
    ("startup", "whole", "began"),
    [(20.0, "1\xa0min 20\xa0s", ", and 20.0\xa0s to begin"), (None, "1\xa0min 0\xa0s", ", without its start, which was")],
)
def test_a_start_that_was_not_measured_is_not_counted(startup: float | None, whole: str, began: str) -> None:
    first, second = duration_lines(SimilarRun(run("y", {"name": "like it"}), 2.0, startup), 30)
    assert first == f"about **{whole}** for 30 steps,"
    assert second.startswith(f"since like it took 2.00\xa0s a step{began}")
