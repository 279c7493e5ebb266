"""The GPU's noise without a GPU: Triton compiles its kernel for three of them, and its interpreter computes what torch does."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.rollout.native.noise import exponentials, mix, token_codes

triton = pytest.importorskip("triton")
from engine.rollout.native import noise_kernel  # noqa: E402 - which needs Triton

WIDTH = 2500
"""Two whole blocks, and a part of one."""


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel runs on the CPU; CUDA's log1p is not there, so it is made of the logarithm as Kahan did."""
    from triton.runtime.interpreter import InterpretedFunction

    def log1p(x: Any) -> Any:
        language = triton.language
        less = (1.0 + x) - 1.0
        return language.where(less == 0.0, x, language.log(1.0 + x) * (x / language.where(less == 0.0, 1.0, less)))

    for name in ("mixed", "kernel"):
        monkeypatch.setattr(noise_kernel, name, InterpretedFunction(getattr(noise_kernel, name).fn))
    monkeypatch.setattr(noise_kernel, "libdevice", SimpleNamespace(log1p=log1p))


@pytest.mark.parametrize("each_its_own", [False, True])
@pytest.mark.usefixtures("interpreted")
def test_the_kernel_makes_the_noise_that_torch_makes(each_its_own: bool) -> None:
    """For tokens that are the same in all rows, and for some of each row."""
    torch.manual_seed(0)
    codes, rows = token_codes(5000, torch.device("cpu")), 5
    keys = mix(torch.arange(rows) * 7919 - 2)
    some = codes[torch.rand(rows, 5000).topk(WIDTH).indices] if each_its_own else codes[:WIDTH]
    noise = torch.full((rows, WIDTH), -1.0)
    noise_kernel.fill(noise, keys, some)
    expected = exponentials(keys, some)
    torch.testing.assert_close(noise, expected, rtol=1e-6, atol=0)
    assert (noise == expected).float().mean() > 0.5


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_the_kernel_compiles_for_gpus_that_are_not_here(capability: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    signature = {"noise": "*fp32", "keys": "*i64", "codes": "*i32", "width": "i32", "stride": "i32", "block": "constexpr"}
    source = ASTSource(noise_kernel.kernel, signature, constexprs={"block": noise_kernel.BLOCK})
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    assert compiled.asm["cubin"]
    assert "log1p" in compiled.asm["llir"], "the logarithm is CUDA's own"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_makes_the_noise_that_a_cpu_makes() -> None:
    cuda = torch.device("cuda")
    keys, codes = mix(torch.arange(64) * 7919 - 2), token_codes(151_936, torch.device("cpu"))
    for some in (codes, codes[torch.randint(len(codes), (64, 128))]):
        torch.testing.assert_close(exponentials(keys.to(cuda), some.to(cuda)).cpu(), exponentials(keys, some), rtol=1e-6, atol=0)
