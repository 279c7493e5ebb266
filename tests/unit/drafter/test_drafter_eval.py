"""A drafter folder measured alone, from the command line down."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig

from engine.drafter.__main__ import main
from engine.drafter.eagle3 import make_drafter
from engine.drafter.export import write_drafter_folder
from engine.drafter.kind import DrafterKind
from engine.drafter.model import Drafter
from engine.drafter.model_card import MEASURED, DrafterCard

QUICK = ["--prompts", "6", "--max-new-tokens", "24"]


def make_folder(path: Path, model: Path, kind: DrafterKind) -> Path:
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(model)
    write_drafter_folder(path, make_drafter(kind, config).state_dict(), config, DrafterCard(str(model), "countdown", 0))
    return path


@pytest.fixture
def folder(random_model: Path, tmp_path: Path) -> Path:
    """A random drafter of the random model, whose card names it."""
    return make_folder(tmp_path / "drafter", random_model, "eagle")


def measured(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["eval", *arguments, *QUICK, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_figures_of_the_folder_alone(folder: Path, random_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_drafter_of_the_recipe_eagle3(random_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = measured(capsys, str(make_folder(tmp_path / "drafter", random_model, "eagle3")))
    assert 0 <= result["top1_agreement"] <= 1
    assert result["chain"]["target_passes"] > 0
    assert len(result["tree"]["acceptance"]) > 0


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_the_card_gets_the_figures(random_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: DrafterKind) -> None:
    """In place of none, and of earlier ones; the rest of the card stays."""
    folder = make_folder(tmp_path / "drafter", random_model, kind)
    card = folder / "README.md"
    before = card.read_text()
    assert "own token) | not measured |" in before
    result = measured(capsys, str(folder), "--write-card")
    written = card.read_text()
    for row in (
        f"own token) | {result['chain']['accept_length']:.2f} tokens |",
        "| measured in | chains of 6, 6 prompts of countdown, temp",
    ):
        assert row in written
    assert f"| accepted at depth 1 | {result['chain']['acceptance'][0]:.1%} |" in written
    assert [line for line in before.splitlines() if "not measured" not in line] == [
        line for line in written.splitlines() if not line.startswith(MEASURED)
    ]
    measured(capsys, str(folder), "--write-card")
    assert card.read_text() == written
    assert measured(capsys, str(folder)) == result


def test_top_p_is_told_with_the_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which decide on them as much as the temperature does."""
    sampling = ["--temperature", "0.7", "--top-p", "0.9", "--write-card"]
    assert measured(capsys, str(folder), *sampling)["top_p"] == 0.9
    told = "6 prompts of countdown, temperature 0.7, top-p 0.9"
    assert f"| measured in | chains of 6, {told} |" in (folder / "README.md").read_text()
    assert main(["eval", str(folder), *QUICK, *sampling]) == 0
    assert f"measured in     {told}\n" in capsys.readouterr().out


def test_a_card_of_others_is_left_alone(folder: Path, random_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "README.md").write_text("# Mine\n")
    assert main(["eval", str(folder), "--model", str(random_model), *QUICK, "--write-card"]) == 2
    told = capsys.readouterr()
    assert "row for the accept length" in told.err
    assert "top-1 agreement" in told.out, "what was measured is not lost"
    assert (folder / "README.md").read_text() == "# Mine\n"


def test_a_good_drafter_is_told_from_a_random_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shipped drafter on its own model."""
    good = measured(capsys, "engine/models/assets/drafter")
    assert good["base_model"] == "tiny"
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained("engine/models/assets/tiny")
    write_drafter_folder(folder, Drafter(config).state_dict(), config, DrafterCard("tiny", "countdown", 0))
    random = measured(capsys, str(folder))
    assert good["top1_agreement"] > 0.7 > random["top1_agreement"]
    assert good["chain"]["accept_length"] > random["chain"]["accept_length"] + 1
    assert good["tree"]["accept_length"] > good["chain"]["accept_length"]
    kept = 1 + sum(good["chain"]["acceptance"])
    assert 0.85 * kept < good["chain"]["accept_length"] <= kept, "a response's end cuts off the rest of its last draft"


def test_maths_questions_of_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(__file__).parents[2] / "data" / "gsm8k_sample.jsonl"
    assert measured(capsys, str(folder), "--task", str(data))["task"] == "math"


def test_prompts_of_a_file_with_fewer_are_used_once(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Said again they would count as others, in the figures and on the card."""
    data = tmp_path / "few.jsonl"
    data.write_text("".join(f'{{"question": "{first}+1=", "answer": "#### {first + 1}"}}\n' for first in (1, 2, 3, 3)))
    result = measured(capsys, str(folder), "--task", str(data), "--write-card")
    assert result["prompts"] == 3
    assert "| measured in | chains of 6, 3 prompts of math, temp" in (folder / "README.md").read_text()


def test_the_table_has_a_line_for_each_strategy(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(folder), *QUICK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line] == ["drafter", "base", "measured", "top-1", "strategy", "chain", "tree"]


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (None, ["--model", "tiny"], "fc.weight is [64, 128], this target needs [160, 320]"),
        (None, ["--model", "/nowhere/model"], "/nowhere/model: no such folder"),
        (None, ["--task", "chess"], "task chess: neither countdown nor word_problems nor a file"),
        (None, ["--max-new-tokens", "5000"], "lower --max-new-tokens"),
        (None, ["--temperature", "nan"], "rollout.temperature"),
        (None, ["--top-p", "0"], "rollout.top_p"),
        ("README.md", [], "name it with --model"),
        ("model.safetensors", [], "no model.safetensors in it"),
    ],
)
def test_what_does_not_fit_is_told_in_a_line(
    folder: Path, capsys: pytest.CaptureFixture[str], change: str | None, arguments: list[str], message: str
) -> None:
    if change:
        (folder / change).unlink()
    assert main(["eval", str(folder), *QUICK, *arguments]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize("option", ["--prompts", "--max-new-tokens"])
@pytest.mark.parametrize("value", ["x", "1.5", "0", "-3", "", "9" * 5000], ids=["word", "part", "none", "negative", "empty", "endless"])
def test_what_is_no_number_of_something_is_told_what_is_wanted(capsys: pytest.CaptureFixture[str], option: str, value: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["eval", "drafter", f"{option}={value}"])
    assert f"argument {option}: must be a whole number of at least 1 (got {value[:24]})" in capsys.readouterr().err


@pytest.mark.parametrize("card", [b"---\nbase_model: [\n---\n", b"---\nbase_model: \xff\n---\n"])
def test_a_card_that_cannot_be_read_names_no_model(folder: Path, capsys: pytest.CaptureFixture[str], card: bytes) -> None:
    (folder / "README.md").write_bytes(card)
    assert main(["eval", str(folder)]) == 2
    assert "name it with --model" in capsys.readouterr().err


def test_no_folder_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(tmp_path / "nothing")]) == 2
    assert "not a local folder" in capsys.readouterr().err
