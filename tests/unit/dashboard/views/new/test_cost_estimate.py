import re

import pytest
from example_runs import run

from backend.services.runs.listing import CONDITION
from backend.services.runs.presets import presets
from dashboard.analysis.start_of_run import SimilarRun
from dashboard.data.similar_runs import SIMILAR_IN, conditions
from dashboard.views.new.cost_estimate import duration_lines, pretraining_line, size_lines
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


def test_prompts_beyond_those_that_are_learned_from_are_counted() -> None:
    """Over-sampling rounds the number of groups up, and what is stopped has cost as many tokens as it has."""
    config: Config = merged(
        presets()[0].config,
        {
            "algorithm": {"prompts_per_step": 5, "group_size": 4},
            "rollout": {"max_new_tokens": 100, "scheduling": {"over_sampling": 1.5}},
            "evaluation": {"every": 2, "prompts": 8, "samples": 2},
        },
    )
    assert size_lines(config) == [
        "**20 responses a step**, of 32 that are begun, 3,200 tokens at most",
        "and 16 responses in each evaluation, 1,600 tokens at most",
    ]
    plain: Config = merged(config, {"rollout": {"scheduling": {"over_sampling": 1}}, "evaluation": {"every": 0}})
    assert size_lines(plain) == ["**20 responses a step**, 2,000 tokens at most"]
    refilled: Config = merged(plain, {"algorithm": {"refills": 3}})
    assert size_lines(refilled) == ["**20 responses a step**, of up to 80 that are begun, 8,000 tokens at most"]


@pytest.mark.parametrize(
    ("steps", "drafter", "told"),
    [
        (3, {"path": None, "pretrain_minutes": 0}, ""),
        (0, {"path": None, "pretrain_minutes": 0.0001}, "about **5.00\xa0s** to train the drafter, or twice as long as"),
        (3, {"path": "auto", "pretrain_minutes": 10}, "if that is more, unless there is a drafter already"),
        (0, {"path": "auto", "pretrain_minutes": 10}, "if that is more; a drafter that is there already is trained further"),
    ],
)
def test_how_long_a_drafter_is_trained_is_no_bound_and_says_what_becomes_of_one_that_is_there(
    steps: int, drafter: dict[str, object], told: str
) -> None:
    line = pretraining_line(merged(presets()[0].config, {"algorithm": {"steps": steps}, "drafter": drafter}))
    assert told in line
    assert bool(line) == bool(told)
    assert "at most" not in line


@pytest.mark.parametrize(
    ("startup", "whole", "began"),
    [(20.0, "1\xa0min 20\xa0s", ", and 20.0\xa0s to begin"), (None, "1\xa0min 0\xa0s", ", without its start, which was")],
)
def test_a_start_that_was_not_measured_is_not_counted(startup: float | None, whole: str, began: str) -> None:
    first, second = duration_lines(SimilarRun(run("y", {"name": "like it"}), 2.0, startup), 30)
    assert first == f"about **{whole}** for 30 steps,"
    assert second.startswith(f"since like it took 2.00\xa0s a step{began}")
