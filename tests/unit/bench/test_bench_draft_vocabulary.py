"""What is compared is trained on the same, step by step. Which is better takes a model that has learned something."""

import shutil
from pathlib import Path

import pytest

from engine.bench import draft_vocabulary

ROWS = Path(__file__).parents[2] / "data" / "gsm8k_sample.jsonl"


@pytest.mark.parametrize("drafted", [24, 200])
def test_it_compares_where_leaving_tokens_out_can_be_worth_it(
    tmp_path: Path, random_model: Path, monkeypatch: pytest.MonkeyPatch, drafted: int
) -> None:
    for name in ("train.jsonl", "test.jsonl"):
        shutil.copy(ROWS, tmp_path / name)
    monkeypatch.setattr(draft_vocabulary, "DRAFTED", drafted)
    monkeypatch.setattr(draft_vocabulary, "TOKENS", 24)
    found = draft_vocabulary.run(True, str(random_model), tmp_path / "train.jsonl")
    assert (found["vocabulary"], found["responses"], found["microsteps"]) == (259, 16, 8)
    assert list(found["arms"]) == (["all", "24"] if drafted == 24 else ["all"])
    assert found["from_all"] == {"accept_ratio": 1, "training_speedup": 1, "drafting_speedup": {"1": 1, "4": 1, "16": 1}}
    if drafted == 24:
        assert found["from_24"]["training_speedup"] > 0
        assert found["arms"]["24"]["accept"] == pytest.approx(found["from_24"]["accept_ratio"] * found["arms"]["all"]["accept"], abs=0.01)
