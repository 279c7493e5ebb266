"""The benchmark of a pretrained model takes only drafters that were trained for it. What it measures takes too long here."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from engine.bench import __main__ as command
from engine.bench import real, sglang
from engine.errors import DataError
from engine.pretraining import command as training


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))

    def train(options: argparse.Namespace) -> None:
        options.out.mkdir(parents=True)
        (options.out / "README.md").write_text(f"---\nbase_model: {options.model}\n---\n")
        (options.out / "config.json").write_text("{}")

    monkeypatch.setattr(training, "train", train)
    return tmp_path


def test_a_drafter_is_kept_for_the_model_that_it_was_trained_for() -> None:
    """Models in folders of the same name have one shape as often as not."""
    folder = real.trained_drafter("one/mine", Path("train.jsonl"), 0.5)
    assert real.trained_drafter("one/mine", Path("train.jsonl"), 0.5) == folder
    with pytest.raises(DataError, match="was trained for one/mine, not for other/mine"):
        real.trained_drafter("other/mine", Path("train.jsonl"), 0.5)


def test_a_result_says_by_which_settings_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any) -> dict[str, Any]:
        return {"mismatches": 0}

    monkeypatch.setattr(real, "run", run)
    monkeypatch.setattr(sglang, "run", run)
    file = tmp_path / "found.json"
    for arguments, settings in (
        (["real", "--minutes", "10", "30"], {"minutes": [10, 30]}),
        (["sglang", "--drafter", str(tmp_path / "mine"), "--quick"], {"drafter": "mine", "quick": True}),
    ):
        assert command.main([*arguments, "--json", str(file)]) == 0
        assert json.loads(file.read_text())["provenance"]["settings"] == settings


def test_each_repetition_begins_with_another_arm_and_has_all() -> None:
    turns = [real._turn({"plain": 1, "ngram": 2, "60": 3}, repetition) for repetition in range(4)]
    assert [turn[0] for turn in turns] == ["plain", "ngram", "60", "plain"]
    assert all(sorted(turn) == sorted(turns[0]) for turn in turns)
