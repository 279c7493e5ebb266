"""A drafter folder measured alone, from the command line down."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig

from engine.drafter.__main__ import main
from engine.drafter.export import Card, write_drafter_folder
from engine.drafter.model import Drafter

QUICK = ["--prompts", "6", "--max-new-tokens", "24"]


@pytest.fixture
def folder(random_model: Path, tmp_path: Path) -> Path:
    """A random drafter of the random model, whose card names it."""
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(random_model)
    write_drafter_folder(tmp_path / "drafter", Drafter(config).state_dict(), config, Card(str(random_model), "countdown", 0))
    return tmp_path / "drafter"


def measured(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["eval", *arguments, *QUICK, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_figures_of_the_folder_alone(folder, random_model, capsys):
    result = measured(capsys, str(folder))
    assert result["base_model"] == str(random_model)
    assert result["sha256"] == sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert 0 <= result["top1_agreement"] <= 1
    assert (result["chain"]["depth"], result["chain"]["top_k"]) == (6, 1)
    assert result["tree"]["top_k"] > 1
    for one in (result["chain"], result["tree"]):
        assert 0 < len(one["acceptance"]) <= one["depth"]
        assert all(0 <= rate <= 1 for rate in one["acceptance"])
        assert one["target_passes"] > 0
    assert measured(capsys, str(folder)) == result, "the same prompts and the same sampling"


def test_a_good_drafter_is_told_from_a_random_one(folder, capsys):
    """The shipped drafter on its own model."""
    good = measured(capsys, "engine/models/assets/drafter")
    assert good["base_model"] == "tiny"
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained("engine/models/assets/tiny")
    write_drafter_folder(folder, Drafter(config).state_dict(), config, Card("tiny", "countdown", 0))
    random = measured(capsys, str(folder))
    assert good["top1_agreement"] > 0.7 > random["top1_agreement"]
    assert good["chain"]["accept_length"] > random["chain"]["accept_length"] + 1
    assert good["tree"]["accept_length"] > good["chain"]["accept_length"]
    kept = 1 + sum(good["chain"]["acceptance"])
    assert 0.85 * kept < good["chain"]["accept_length"] <= kept, "a response's end cuts off the rest of its last draft"


def test_maths_questions_of_a_file(folder, capsys):
    data = Path(__file__).parents[2] / "data" / "gsm8k_sample.jsonl"
    assert measured(capsys, str(folder), "--task", str(data))["task"] == "math"


def test_the_table_has_a_line_for_each_strategy(folder, capsys):
    assert main(["eval", str(folder), *QUICK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line] == ["drafter", "base", "task", "top-1", "strategy", "chain", "tree"]


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (None, ["--model", "tiny"], "fc.weight is [64, 128], this target needs [160, 320]"),
        (None, ["--model", "/nowhere/model"], "/nowhere/model: no such folder"),
        (None, ["--task", "chess"], "task chess: neither countdown nor a file"),
        (None, ["--max-new-tokens", "5000"], "lower --max-new-tokens"),
        ("README.md", [], "name it with --model"),
        ("model.safetensors", [], "no model.safetensors in it"),
    ],
)
def test_what_does_not_fit_is_told_in_a_line(folder, capsys, change, arguments, message):
    if change:
        (folder / change).unlink()
    assert main(["eval", str(folder), *QUICK, *arguments]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert len(errors.splitlines()) == 1


def test_no_folder_at_all(tmp_path, capsys):
    assert main(["eval", str(tmp_path / "nothing")]) == 2
    assert "not a local folder" in capsys.readouterr().err
