"""The products of every data type: right up to rounding, and a row has the same bits whatever is beside it."""

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch
from native_cases import SHAPES, make_target
from test_native_model import logits_of

from engine.errors import ModelError
from engine.rollout.native import linear as module
from engine.rollout.native.linear import Linear, activations, multiplies_bfloat16
from engine.rollout.native.runner import Runner

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MATRICES = ((64, 48, False), (160, 320, True), (33, 17, True), (1536, 576, False), (576, 4001, False))
ROWS = (*range(1, 20), 31, 32, 33, 64, 65, 100, 256, 300)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def make_linear(inputs: int, outputs: int, dtype: torch.dtype, bias: bool) -> Linear:
    generator = torch.Generator().manual_seed(inputs)
    linear = Linear(inputs, outputs, torch.empty(0, dtype=dtype), bias)
    for weight in (linear.weight, linear.bias):
        if weight is not None:
            weight.copy_(torch.randn(weight.shape, generator=generator))
    linear.pack()
    return linear


@dtypes
@pytest.mark.parametrize(("inputs", "outputs", "bias"), MATRICES)
def test_a_product_is_right_up_to_rounding(inputs: int, outputs: int, bias: bool, dtype: torch.dtype) -> None:
    linear = make_linear(inputs, outputs, dtype, bias)
    rounding = 2.0**-8 if dtype == torch.bfloat16 else 2.0**-20
    for rows in (0, 1, 2, 7, 64):
        x, residual = torch.randn(rows, inputs), torch.randn(rows, outputs)
        exact = x.double() @ linear.weight.double().t() + (0 if linear.bias is None else linear.bias.double())
        size = x.abs().double() @ linear.weight.abs().double().t() + 1
        assert linear(x).dtype == torch.float32
        assert ((linear(x).double() - exact).abs() <= 2 * rounding * size).all()
        assert ((linear.plus(residual, x).double() - exact - residual).abs() <= 2 * rounding * (size + residual.abs())).all()


@dtypes
@pytest.mark.parametrize(("inputs", "outputs", "bias"), MATRICES)
def test_a_row_has_the_same_bits_in_any_company(inputs: int, outputs: int, bias: bool, dtype: torch.dtype) -> None:
    linear = make_linear(inputs, outputs, dtype, bias)
    x = torch.randn(max(ROWS), inputs)
    together = linear(x)
    for rows in ROWS:
        start = rows % 7
        assert torch.equal(linear(x[start : start + rows]), together[start : start + rows])


def test_where_a_cpu_multiplies_no_bfloat16_its_values_are_multiplied_as_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "multiplies_bfloat16", lambda: False)
    linear = make_linear(64, 48, torch.bfloat16, bias=True)
    assert linear.bias is not None
    x = torch.randn(5, 64)
    torch.testing.assert_close(linear(x), x @ linear.weight.float().t() + linear.bias.float(), atol=1e-5, rtol=0)


def test_without_fbgemm_float16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized.__class__, "supported_engines", ["qnnpack"])
    with pytest.raises(ModelError, match=r"model\.dtype to auto or float32"):
        make_linear(64, 48, torch.float16, bias=False)


def test_without_avx512_float16_rows_at_the_end_are_given_company(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    linear = make_linear(160, 320, torch.float16, bias=False)
    x = torch.randn(max(ROWS), 160)
    together = linear(x)
    for rows in ROWS:
        assert torch.equal(linear(x[:rows]), together[:rows])


def test_packed_weights_answer_pytorch_without_an_exception() -> None:
    """What an operation asks each argument for; see linear.py for what it cost."""
    packed = torch.ops.quantized.linear_prepack_fp16(torch.randn(48, 64), None)
    assert hasattr(packed, "__torch_function__")
    assert not torch.overrides.has_torch_function((packed,))


@dtypes
@pytest.mark.parametrize("family", SHAPES)
@torch.inference_mode()
def test_a_model_is_as_exact_as_its_data_type(family: str, dtype: torch.dtype) -> None:
    """Compared with the same model, in float32, whose weights have been rounded to that type."""
    model = make_target(family, layers=4)
    for weight in model.parameters():
        weight.copy_(weight.to(dtype))
    runner = Runner(model.config, torch.empty(0, dtype=dtype), drafting=False)
    runner.target.load(model.state_dict())
    tokens = torch.randint(48, (4, 30), generator=torch.Generator().manual_seed(0))
    error = logits_of(runner, tokens, [20, 1, 9]) - model(tokens).logits
    assert error.abs().median() < (0.05 if dtype == torch.bfloat16 and multiplies_bfloat16() else 5e-6)


def test_a_value_beyond_float16_is_refused() -> None:
    model = make_target()
    weights = dict(model.state_dict())
    runner = Runner(model.config, torch.empty(0, dtype=torch.float16), drafting=False)
    runner.target.load(weights)
    name = "model.layers.1.mlp.up_proj.weight"
    weights[name] = weights[name].clone()
    weights[name][3, 5] = -65_600.0
    with pytest.raises(ModelError, match=rf"{name} has values beyond those of float16 .*set model\.dtype to float32 or bfloat16"):
        runner.target.load(weights)


def test_on_a_cpu_everything_but_the_weights_is_float32() -> None:
    for dtype in DTYPES:
        assert activations(torch.empty(0, dtype=dtype)).dtype == torch.float32
        assert activations(torch.empty(0, dtype=dtype, device="meta")).dtype == dtype


@dtypes
def test_weights_that_are_not_finite_are_refused(dtype: torch.dtype) -> None:
    model = make_target()
    runner = Runner(model.config, torch.empty(0, dtype=dtype), drafting=False)
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    weights["model.layers.0.self_attn.v_proj.weight"][1, 2] = torch.nan
    with pytest.raises(ModelError, match=r"v_proj\.weight is not finite any more: training has diverged"):
        runner.target.load(weights)


def live_tensors() -> int:
    return sum(isinstance(each, torch.Tensor) for each in gc.get_objects())


@dtypes
def test_what_was_packed_before_is_freed_at_once(dtype: torch.dtype) -> None:
    """In a cycle it would wait for a full garbage collection: 256 MB a step of a model of 135 M parameters, for a dozen steps and more."""
    linear = make_linear(64, 48, dtype, bias=False)
    gc.collect()
    before, tensors = weakref.ref(linear._product), live_tensors()
    gc.disable()
    try:
        linear.pack()
        assert (before(), live_tensors()) == (None, tensors)
    finally:
        gc.enable()
