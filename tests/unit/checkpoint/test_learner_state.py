"""The learner's part of a checkpoint."""

import resource
from pathlib import Path

import pytest
import torch

from engine.checkpoint import learner_state
from engine.errors import CheckpointError


def test_a_full_disk_is_told_in_a_line(tmp_path: Path) -> None:
    """A limit on file sizes stands for it. torch raises what is no Exception, with a traceback in it."""
    state = {"model": {"weight": torch.zeros(100_000)}, "optimizer": {}}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(
            CheckpointError, match=r"policy cannot be written: is the disk full \(.+\)\? Make room, then resume or start again$"
        ) as raised:
            learner_state.write(state, tmp_path / "policy", None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(raised.value)
