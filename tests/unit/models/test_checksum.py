import pytest
import torch
from torch import Tensor

from engine.models.checksum import checksum


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=str)
def weights(request: pytest.FixtureRequest) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(request.param) for shape in ((6, 4), (5,), (2, 3, 4))]


def test_equal_weights_have_equal_checksums_whatever_their_layout(weights: list[Tensor]) -> None:
    copies = [weight.clone() for weight in weights]
    copies[0] = copies[0].t().contiguous().t()
    assert checksum(copies) == checksum(weights)


def test_one_bit_anywhere_is_seen(weights: list[Tensor]) -> None:
    before = checksum(weights)
    for weight in weights:
        flat = weight.view(torch.int16)
        flat[(0,) * flat.dim()] ^= 1
        assert checksum(weights) != before
        flat[(0,) * flat.dim()] ^= 1
    assert checksum(weights) == before


def test_the_same_values_elsewhere_are_seen(weights: list[Tensor]) -> None:
    assert checksum([weights[0].flip(0), *weights[1:]]) != checksum(weights)
    assert checksum([weights[0].flip(1), *weights[1:]]) != checksum(weights)
    assert checksum(weights[::-1]) != checksum(weights)
