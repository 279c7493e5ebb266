"""The benchmark of a pretrained model that learns, on a small model that cannot: its arms write the same, and all is measured."""

import json
from pathlib import Path
from typing import Any

import pytest
from sizes import only_with_all

from engine.bench import __main__ as command
from engine.bench import word_problems
from engine.bench.word_problems import Size
from engine.checkpoint.run_folder import EVENTS
from engine.config import merged
from engine.events import Sample, read


def written(run: Path) -> list[tuple[str, int | None]]:
    """Samples of responses, with their length."""
    return [(event.response, event.tokens) for event in read(run / EVENTS) if isinstance(event, Sample)]


@only_with_all
@pytest.mark.slow
def test_both_arms_write_the_same_and_all_is_measured(
    random_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = word_problems._configuration

    def configuration(model: str, size: Size) -> dict[str, Any]:
        return merged(usual(model, size), {"rollout": {"max_prompt_tokens": 512}})  # its tokens are bytes

    monkeypatch.setattr(word_problems, "_configuration", configuration)
    monkeypatch.setattr(word_problems, "QUICK", Size(minutes=0.05, steps=2, prompts_per_step=2, measured=2))
    monkeypatch.setattr(word_problems, "LONGEST", 24)
    assert command.main(["word_problems", "--quick", "--model", str(random_model), "--runs", str(tmp_path / "runs")]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1].removeprefix("RESULT "))
    told = {"reward_start", "reward_final", "same_steps", "first_steps", "all_steps", "harvest", "published", "accept_by_step", "accept"}
    assert set(found) == {"facts", "curves"} | told
    assert found["same_steps"] == 2
    assert found["curves"]["plain"] == found["curves"]["tlt"]
    assert written(tmp_path / "runs" / "plain") == written(tmp_path / "runs" / "tlt") != []
    assert set(found["first_steps"]) == set(found["all_steps"]) == {"rollout_share", "rollout_speedup", "e2e"}
    assert set(found["accept"]) == {"base", "static", "adaptive"}
