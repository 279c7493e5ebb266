"""The benchmark of SGLang says what it lacks, and counts as our engine does. ``tests/integration/test_sglang_bare.py`` runs its SGLang."""

from pathlib import Path

import pytest
import torch

from engine.bench import bare_sglang, sglang
from engine.bench.bare_sglang import Served, serve
from engine.errors import ConfigError, DataError
from engine.rollout.interface import RolloutStatistics, Sampling


def test_it_asks_for_questions_that_the_drafter_was_not_trained_on(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("")
    for data in (None, tmp_path / "train.jsonl"):
        with pytest.raises(DataError, match=r"bench sglang: --data: give GSM8K's training file, with test\.jsonl beside it"):
            sglang.run(True, "smollm2-135m", data, None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_cpu_needs_the_kernels_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare_sglang, "KERNELS", tmp_path / "nothing")
    with pytest.raises(ConfigError, match="use a GPU or a checkout"):
        serve(tmp_path, [([(1, 2)], Sampling())])


def test_accept_lengths_have_the_targets_own_token_in_them() -> None:
    ours = RolloutStatistics(drafted_by_position=[10, 10], accepted_by_position=[6, 4])
    assert sglang.compared(ours, Served([], drafts=9, passes=10, seconds=1.0)) == {"native": 2.0, "sglang": 1.9, "ratio": 0.95}
