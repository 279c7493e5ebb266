"""The benchmark of a pretrained model takes only drafters that were trained for it, and its arms write the same."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.bench import __main__ as command
from engine.bench import real, sglang
from engine.drafter.eagle3 import first_drafter
from engine.drafter.export import write_drafter_folder
from engine.drafter.model_card import DrafterCard
from engine.errors import DataError
from engine.models.load import load_model
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


def test_all_arms_write_the_same_and_all_is_measured(
    random_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a small model that nobody trained, with a drafter like it."""

    def train(options: argparse.Namespace) -> None:
        model = load_model(random_model, torch.float32)
        torch.manual_seed(0)
        weights = first_drafter("eagle", model).state_dict()
        write_drafter_folder(options.out, weights, model.config, DrafterCard(options.model, "nothing", 0))

    monkeypatch.setattr(training, "train", train)
    for name, size in {"TAIL": 8, "SIBLINGS": 4, "MEASURED": 8, "TOKENS": 16, "LONGEST": 256}.items():
        monkeypatch.setattr(real, name, size)
    rows = [{"question": f"What is {number} and {number + 2}?", "answer": f"#### {2 * number + 2}"} for number in range(12)]
    for file in ("train.jsonl", real.TEST):
        (tmp_path / file).write_text("\n".join(map(json.dumps, rows)))
    options = ["--quick", "--model", str(random_model), "--data", str(tmp_path / "train.jsonl"), "--minutes", "0.5"]
    assert command.main(["real", *options]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1].removeprefix("RESULT "))
    assert found["mismatches"] == 0
    measured = {"plain_tok_s", "hf_tok_s", "long_tail_s", "ngram", "minutes", "mismatches"}
    assert set(found) == {"model", "facts", "trained"} | measured
    assert set(found["ngram"]) == {"speedup", "long_tail_speedup"}
    assert set(found["minutes"]) == set(found["trained"]) == {"0.5"}
    assert set(found["minutes"]["0.5"]) == {"accept", "accept_by_position", "speedup", "long_tail_speedup"}
    assert min(found["plain_tok_s"]["1"], found["hf_tok_s"]["1"], *found["long_tail_s"].values()) > 0
