import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from engine.models import onednn_linear
from engine.models.onednn_linear import OneDNNLinear, mkl_is_slow, pays, use_onednn

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")  # type: ignore[no-untyped-call]


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each product that oneDNN was asked for, which now pays wherever it can."""
    rows: list[int] = []
    real = onednn_linear.multiply

    def counted(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        rows.append(len(x))
        return real(x, weight, bias)

    monkeypatch.setattr(onednn_linear, "mkl_is_slow", lambda: True)
    monkeypatch.setattr(onednn_linear, "multiply", counted)
    return rows


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(40, 24), (2, 7, 24), (1, 24), (0, 24)])
def test_values_and_gradients_are_those_of_torch(shape: tuple[int, ...], bias: bool, products: list[int]) -> None:
    torch.manual_seed(0)
    expected = nn.Linear(24, 16, bias=bias)
    found = copy.deepcopy(expected)
    use_onednn(found)
    inputs = [torch.randn(shape).requires_grad_()]
    inputs.append(inputs[0].detach().clone().requires_grad_())
    outputs = [layer(x) for layer, x in zip((expected, found), inputs, strict=True)]
    torch.testing.assert_close(*outputs)
    slope = torch.randn_like(outputs[0])
    torch.autograd.backward(outputs, [slope, slope])
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    for one, other in zip(expected.parameters(), found.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    assert len(products) == (3 if inputs[0].numel() else 0)


def test_a_frozen_layer_takes_one_product_less(products: list[int]) -> None:
    layer = nn.Linear(24, 16).requires_grad_(False)
    use_onednn(layer)
    layer(torch.randn(5, 24, requires_grad=True)).sum().backward()
    assert products == [5, 5]


def test_bfloat16_is_left_to_torch(products: list[int]) -> None:
    layer = nn.Linear(24, 16)
    use_onednn(layer)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(5, 24)).dtype == torch.bfloat16
    assert not products


def test_a_model_keeps_its_weights_and_their_names() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Sequential(nn.Linear(4, 2)))
    before = model.state_dict()
    use_onednn(model)
    assert [type(layer) for layer in model.modules()][1:] == [OneDNNLinear, nn.LayerNorm, nn.Sequential, OneDNNLinear]
    assert model.state_dict().keys() == before.keys()
    assert all(weight.data_ptr() == before[name].data_ptr() for name, weight in model.state_dict().items())


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="this torch has no MKL")  # type: ignore[no-untyped-call]
def test_mkl_is_the_choice_on_processors_of_its_maker_and_on_those_without_avx512(tmp_path: Path) -> None:
    for maker in ("GenuineIntel", "AuthenticAMD"):
        for flags in ("avx2", "avx2 avx512f"):
            (tmp_path / f"{maker} {flags}").write_text(f"vendor_id : {maker}\nflags : fpu {flags} sha_ni\n", encoding="utf-8")
    slow = {path.name for path in tmp_path.iterdir() if mkl_is_slow(path)}
    assert slow == {"AuthenticAMD avx2 avx512f"}
    assert not mkl_is_slow(tmp_path / "nothing")


def test_float64_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_linear, "mkl_is_slow", lambda: True)
    assert pays(torch.zeros(1))
    assert not pays(torch.zeros(1, dtype=torch.float64))


GROWTH = """
import psutil, torch
from torch import nn
from engine.models.onednn_linear import multiply, use_onednn
torch.set_num_threads(1)
use_onednn(nn.Linear(1, 1))
x, weight = torch.randn(1000, 256), torch.randn(256, 256)
before = psutil.Process().memory_info().rss
for rows in range(100, 900):
    multiply(x[:rows], weight)
print(psutil.Process().memory_info().rss - before)
"""


def test_memory_does_not_grow_with_the_numbers_of_rows_that_there_were() -> None:
    """In a process of its own, which has multiplied nothing yet."""
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 350 * 2**20
