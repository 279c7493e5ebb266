"""What is counted as different is what is, and every kind of drafts takes part."""

from typing import Any

import pytest
import torch

from engine.bench import equality
from engine.errors import ConfigError
from engine.rollout.native import linear


def test_responses_are_equal_and_all_kinds_of_drafts_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equality, "TYPES", (torch.float32,))
    found = equality.run(True, "tiny")["types"]["float32"]
    assert found["differ"] == 0
    assert set(found["steps"]) >= {"eagle", "tree"}
    assert found["accepted_share"] > 0.2


def test_with_products_that_depend_on_the_batch_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equality, "TYPES", (torch.float32,))
    plain = linear.PACKED[torch.float32]

    def uneven(weight: torch.Tensor, bias: torch.Tensor | None) -> Any:
        product = plain(weight, bias)
        return lambda x: product(x) * (1 + 1e-6 * (len(x) > 2 * equality.SIBLINGS))

    monkeypatch.setitem(linear.PACKED, torch.float32, uneven)
    assert equality.run(True, "tiny")["types"]["float32"]["differ"] > 0


def test_a_model_without_a_drafter_needs_the_folder_of_one() -> None:
    with pytest.raises(ConfigError, match="--drafter: smollm2-135m has no drafter"):
        equality.run(True, "smollm2-135m")
    with pytest.raises(ConfigError, match="equality runs tiny or smollm2-135m, not huge"):
        equality.run(True, "huge")
