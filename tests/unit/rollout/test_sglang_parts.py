"""The parts of the SGLang engine that need no SGLang."""

import importlib.util
import os
from pathlib import Path

import pytest
import torch
from sglang_cases import chains, shapes

from engine.config import RolloutConfig, SGLangConfig, parse
from engine.errors import ConfigError, LongtailError, ModelError
from engine.rollout.interface import Request, Sampling
from engine.rollout.sglang import start_errors
from engine.rollout.sglang.arguments import engine_arguments, environment, sampling_arguments, seed_of, speculative_arguments
from engine.rollout.sglang.host_process import free_ports
from engine.rollout.sglang.host_settings import HostSettings, current
from engine.rollout.sglang.messages import Bucket
from engine.rollout.sglang.requirements import check_machine
from engine.rollout.sglang.weight_transfer import plan_buckets, through

WEIGHTS = {"a": torch.randn(3, 5), "b": torch.randn(7), "large": torch.randn(50, 4), "c": torch.randn(2, 2)}


def read(bucket: Bucket, memory: int) -> dict[str, torch.Tensor]:
    flat = torch.from_file(f"/proc/self/fd/{memory}", shared=True, size=bucket.bytes, dtype=torch.uint8)
    return {span.name: flat[span.start : span.end].clone().view(span.dtype).view(span.shape) for span in bucket.tensors}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_arrive_through_shared_memory(dtype: torch.dtype) -> None:
    memory = os.memfd_create("test")
    found: dict[str, torch.Tensor] = {}
    ends = []
    for bucket, last in through(memory, WEIGHTS, dtype):
        found |= read(bucket, memory)
        ends.append(last)
    assert ends == [True]
    assert os.fstat(memory).st_size == 0
    os.close(memory)
    assert list(found) == list(WEIGHTS)
    for name, tensor in WEIGHTS.items():
        assert torch.equal(found[name], tensor.to(dtype))


def test_buckets_are_no_larger_than_allowed_but_for_one_large_tensor() -> None:
    buckets = plan_buckets(WEIGHTS, torch.float32, size=100)
    assert [[span.name for span in bucket.tensors] for bucket in buckets] == [["a", "b"], ["large"], ["c"]]
    assert all(span.start % 16 == 0 for bucket in buckets for span in bucket.tensors)
    assert [bucket.bytes for bucket in buckets] == [64 + 28, 800, 16]


def test_sampling_in_sglangs_words() -> None:
    request = Request(7, 1, (1, 2))
    found = sampling_arguments(request, Sampling(0.7, 0.9, 0, 50, seed=3), frozenset({2, 0}))
    wanted = {"temperature": 0.7, "top_p": 0.9, "top_k": -1, "max_new_tokens": 50, "stop_token_ids": [0, 2], "ignore_eos": False}
    assert wanted.items() <= found.items()
    assert found["sampling_seed"] == seed_of(7, 3)
    assert sampling_arguments(request, Sampling(top_k=5, stop=("x",)), frozenset())["stream_interval"] == 1
    assert len({seed_of(request, seed) for request in range(50) for seed in range(50)}) == 2500
    assert all(0 <= seed_of(request, 1) < 2**63 for request in range(100))


def test_the_engine_in_sglangs_words(tmp_path: Path) -> None:
    settings = SGLangConfig(tensor_parallel=2, mem_fraction=0.3)
    rollout = RolloutConfig(max_prompt_tokens=10, max_new_tokens=20, max_batch=4, sglang=settings)
    cuda = torch.device("cuda", 0)
    found = engine_arguments(Path("model"), rollout, cuda, torch.bfloat16, 5, 3, 128)
    assert {"dtype": "bfloat16", "tp_size": 2, "mem_fraction_static": 0.3, "max_running_requests": 4}.items() <= found.items()
    assert found["context_length"] >= 10 + 20 + 2 * 3
    assert not {"device", "attention_backend"} & found.keys()
    for dtype, head in ((torch.float32, 128), (torch.bfloat16, 32)):
        assert engine_arguments(Path("model"), rollout, cuda, dtype, 5, 3, head)["attention_backend"] == "triton"
    assert engine_arguments(Path("model"), rollout, torch.device("cpu"), torch.float32, 5, 3, 64)["device"] == "cpu"
    found = speculative_arguments(shapes((4, 2, 5), (6, 1, 6), (3, 3, 9)), "EAGLE3", tmp_path / "drafter")
    assert {"speculative_algorithm": "EAGLE3", "speculative_eagle_topk": 3}.items() <= found.items()
    assert {"speculative_num_steps": 6, "speculative_num_draft_tokens": 10}.items() <= found.items(), "room for each"


@pytest.mark.skipif(importlib.util.find_spec("sglang") is None, reason="SGLang is not installed")
def test_only_the_models_that_we_know_are_imported() -> None:
    left_out = set(environment()["SGLANG_DISABLED_MODEL_ARCHS"].split(","))
    assert len(left_out) > 100
    assert not left_out & {"qwen2", "qwen3", "llama", "qwen2_eagle", "llama_eagle", "llama_eagle3"}


def test_the_plugin_finds_its_job_and_only_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LONGTAIL_SGLANG_SETTINGS", raising=False)
    assert current() is None
    settings = HostSettings(str(tmp_path), {"tp_size": 1}, chains(2), "eagle", 3, 8)
    settings.write(tmp_path / "settings.json")
    monkeypatch.setenv("LONGTAIL_SGLANG_SETTINGS", str(tmp_path / "settings.json"))
    assert current() == settings


@pytest.mark.parametrize(
    ("stage", "log", "error", "message"),
    [
        ("import", "", ConfigError, "SGLang cannot be imported: it ended. Its torch, kernels or transformers do not fit"),
        (
            "start",
            "x\ntorch.OutOfMemoryError: CUDA out of memory. Tried\ny",
            ConfigError,
            "rollout.sglang.mem_fraction: .*It says: .*Tried",
        ),
        ("start", "RuntimeError: Not enough memory. Please try to increase", ConfigError, "rollout.sglang.mem_fraction"),
        (
            "start",
            "ValueError: Model architectures ['X'] are not supported for now",
            ModelError,
            "model.path: SGLang cannot run this model",
        ),
        ("start", "'Scheduler' object has no attribute 'longtail'", ConfigError, "did not take our plugin"),
        ("start", "a\nb", ConfigError, "SGLang did not start: it ended\na\nb"),
    ],
)
def test_a_failed_start_names_its_cause(
    monkeypatch: pytest.MonkeyPatch, stage: str, log: str, error: type[LongtailError], message: str
) -> None:
    monkeypatch.setattr(start_errors, "missing", lambda: None)
    with pytest.raises(error, match=message):
        raise start_errors.cause(stage, "it ended", log)


def test_a_missing_or_untried_sglang_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_errors.importlib.util, "find_spec", lambda _: None)  # type: ignore[attr-defined]
    assert "sglang is not installed; pip install 'longtail[sglang]'" in str(start_errors.missing())
    monkeypatch.setattr(start_errors.importlib.util, "find_spec", lambda _: object())  # type: ignore[attr-defined]
    monkeypatch.setattr(start_errors, "version", lambda _: "0.4.1")
    assert "SGLang 0.4.1 is installed, and 0.5.17, 0.5.20, 0.5.23 are supported" in str(start_errors.missing())
    monkeypatch.setattr(start_errors, "version", lambda _: "0.5.20")
    assert start_errors.missing() is None


def test_trees_are_refused_where_graphs_know_one_top_k(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_errors, "missing", lambda: None)
    monkeypatch.setattr(start_errors, "version", lambda _: "0.5.17")
    with pytest.raises(ConfigError, match=r"speculation\.strategies: SGLang 0\.5\.17 drafts chains only; set top_k=4 to 1"):
        check_machine(parse({"rollout": {"engine": "sglang"}}), 2)
    check_machine(parse({"rollout": {"engine": "sglang"}, "speculation": {"enabled": False}}), 2)
    start_errors.check_trees(chains(4, 2))
    monkeypatch.setattr(start_errors, "version", lambda _: "0.5.20")
    start_errors.check_trees(shapes((2, 1, 2), (3, 3, 9)))


def test_ports_are_free_and_different() -> None:
    assert len(set(free_ports(5))) == 5
