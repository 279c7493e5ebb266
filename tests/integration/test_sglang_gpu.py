"""SGLang where it belongs. Nobody has run these to their end yet."""

import json
from pathlib import Path

import pytest
import torch
from models_for_tests import make_random_model
from sglang_cases import TESTS, native_engine, needs_sglang, random_drafter, sglang_engine, shapes, weights_of
from sglang_figures import Figures, Scale

from engine.config import RolloutConfig, SGLangConfig
from engine.models.enlarge import enlarge, enlarge_drafter
from engine.models.folder import DRAFTER, TINY
from engine.models.load import load_model
from engine.rollout.interface import Request, Sampling

pytestmark = [*needs_sglang, pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
GREEDY = Sampling(temperature=0, max_new_tokens=64)
REQUESTS = [Request(index, index, tuple(range(3 + index, 19 + index))) for index in range(16)]


@pytest.mark.parametrize("ranks", [1, 2])
def test_greedy_is_native_token_for_token(tmp_path: Path, ranks: int) -> None:
    if torch.cuda.device_count() < ranks:
        pytest.skip(f"needs {ranks} CUDA devices")
    folder = make_random_model(tmp_path / "model", hidden=256, tied=False)
    model = load_model(folder, torch.float32)
    rollout = RolloutConfig(max_batch=16, max_prompt_tokens=32, max_new_tokens=64, sglang=SGLangConfig(tensor_parallel=ranks))
    cuda = torch.device("cuda", 0)
    expected = [completion.tokens for completion in native_engine(model, rollout, device=cuda).generate(REQUESTS, GREEDY)]
    speculation = shapes((4, 2, 4), (4, 1, 4), tuner={"name": "beg", "epsilon": 0.5})
    with sglang_engine(folder, model, rollout, speculation, drafter_weights=random_drafter(model), device=cuda) as engine:
        for version in range(2):
            assert [completion.tokens for completion in engine.generate(REQUESTS, GREEDY)] == expected
            engine.load_target(weights_of(model), version + 1)
        assert {arm.strategy for arm in engine.take_statistics().arms} == {"off", "eagle d4 k2 v4", "eagle d4 k1 v4"}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "width", "layers"), [("0.5B", 8, 32), ("7B", 32, 26)])
def test_figures(tmp_path: Path, name: str, width: int, layers: int) -> None:
    """Writes tests/gpu/results/sglang_NAME.json."""
    enlarge(TINY, tmp_path / "model", width, layers)
    enlarge_drafter(DRAFTER, tmp_path / "drafter", width)
    scale = Scale(batches=(1, 8, 32, 128), depths=(8, 6, 4, 2), tokens=256, tail=128, longest=1024, repetitions=3)
    found = Figures(tmp_path / "model", tmp_path / "drafter", torch.device("cuda", 0), torch.bfloat16, scale).measure()
    results = TESTS / "gpu" / "results" / f"sglang_{name}.json"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    assert found["batches"]["1"]["tuned_speedup"] >= 2.6
    assert all(each["tuned_of_best_static"] >= 0.95 for each in found["batches"].values())
