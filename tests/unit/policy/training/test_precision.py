"""In what the policy is trained."""

import pytest
import torch

from engine.config.learner import LearnerConfig
from engine.policy.training import precision
from engine.policy.training.precision import allow_tf32, computing_type

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("fast", "found"), [(torch.bfloat16, torch.bfloat16), (torch.float16, torch.float32), (torch.float32, torch.float32)]
)
def test_auto_is_bfloat16_where_that_is_fast(fast: torch.dtype, found: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "native_data_type", lambda *_: fast)
    assert computing_type(LearnerConfig(precision="auto"), CPU, 1024) == found
    assert computing_type(LearnerConfig(precision="bfloat16"), CPU, 1024) == torch.bfloat16
    assert computing_type(LearnerConfig(precision="float32"), CPU, 1024) == torch.float32


def test_a_gpu_computes_in_bfloat16_unless_it_is_told_not_to() -> None:
    gpu = torch.device("cuda")
    assert computing_type(LearnerConfig(), gpu, 64) == torch.bfloat16
    assert computing_type(LearnerConfig(precision="float32"), gpu, 1024) == torch.float32


def test_tf32_is_for_who_did_not_ask_for_float32() -> None:
    before, found = torch.backends.cuda.matmul.allow_tf32, []
    for device, types in ((CPU, [torch.bfloat16]), (torch.device("cuda"), [torch.bfloat16]), (torch.device("cuda"), [torch.float32])):
        allow_tf32(device, torch.bfloat16, *types)
        found.append(torch.backends.cuda.matmul.allow_tf32)
    torch.backends.cuda.matmul.allow_tf32 = before
    assert found == [before, True, False]


def test_a_small_policy_is_trained_in_float32() -> None:
    assert computing_type(LearnerConfig(precision="auto"), CPU, 64) == torch.float32
