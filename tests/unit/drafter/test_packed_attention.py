import pytest
import torch
from torch import Tensor
from transformers import PretrainedConfig

from engine.drafter.model import Drafter

LENGTHS = (7, 1, 12, 5)


def block_diagonal(lengths: tuple[int, ...]) -> Tensor:
    blocks = [torch.ones(length, length, dtype=torch.bool).tril() for length in lengths]
    mask: Tensor = torch.block_diag(*blocks)  # type: ignore[no-untyped-call]
    return mask.bool()[None, None]


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    positions = torch.cat([torch.arange(length) for length in LENGTHS])[None]
    return torch.randn(1, sum(LENGTHS), 32), torch.randn(1, sum(LENGTHS), 32), positions


def test_lengths_mean_the_block_diagonal_mask(family: PretrainedConfig, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    """In outputs and in gradients; the families share key heads among query heads."""
    drafter = Drafter(family)
    found = []
    for mask in (LENGTHS, block_diagonal(LENGTHS)):
        output = drafter(*inputs, mask)
        drafter.zero_grad()
        output.square().sum().backward()
        found.append([output.detach(), *(parameter.grad.clone() for parameter in drafter.parameters())])  # type: ignore[union-attr]
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_one_segment_is_plain_causal_attention(family: PretrainedConfig, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    drafter = Drafter(family)
    torch.testing.assert_close(drafter(*inputs, (sum(LENGTHS),)), drafter(*inputs), atol=1e-6, rtol=0)


def test_no_mask_and_segments_differ(family: PretrainedConfig, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    drafter = Drafter(family)
    assert not torch.allclose(drafter(*inputs, LENGTHS), drafter(*inputs), atol=1e-3)
