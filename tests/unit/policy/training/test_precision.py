"""In what the policy is trained."""

import pytest
import torch

from engine.config.learner import LearnerConfig
from engine.policy.training import precision
from engine.policy.training.precision import computing_type

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("fast", "found"), [(torch.bfloat16, torch.bfloat16), (torch.float16, torch.float32), (torch.float32, torch.float32)]
)
def test_auto_is_bfloat16_where_that_is_fast(fast: torch.dtype, found: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "native_data_type", lambda *_: fast)
    assert computing_type(LearnerConfig(precision="auto"), CPU, 1024) == found
    assert computing_type(LearnerConfig(precision="bfloat16"), CPU, 1024) == torch.bfloat16
    assert computing_type(LearnerConfig(), CPU, 1024) == torch.float32


def test_a_small_policy_is_trained_in_float32() -> None:
    assert computing_type(LearnerConfig(precision="auto"), CPU, 64) == torch.float32
