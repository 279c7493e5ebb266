"""How much a micro-step of a drafter has to learn from."""

from pathlib import Path
from typing import Any

import pytest
from crew import Crew, config

from engine.config import RunConfig


def bound(wanted: RunConfig) -> int:
    spot = Crew(wanted, workers=1).workers[0].spot
    assert spot
    return spot._trainer.config.tokens_per_microbatch


@pytest.mark.parametrize(("tokens", "changes", "expected"), [(1024, {}, 256), (64, {}, 64), (1024, {"pretrain_minutes": 1.0}, 1024)])
def test_a_drafter_that_starts_from_nothing_takes_small_steps(
    random_model: Path, tokens: int, changes: dict[str, Any], expected: int
) -> None:
    wanted = config(random_model, tokens_per_microbatch=tokens)
    assert bound(wanted.model_copy(update={"drafter": wanted.drafter.model_copy(update=changes)})) == expected
