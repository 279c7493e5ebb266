"""The real SGLang on a CPU: what the tests of its engine share."""

import functools
import importlib.util
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from forked_python.interpreter import ENGINE, SGLANG, forked_python
from torch import Tensor
from trained_drafters import trained
from transformers import PreTrainedModel

from engine.bench.bare_sglang import STAND_IN
from engine.config import RolloutConfig, SpeculationConfig
from engine.drafter.eagle3 import make_drafter
from engine.drafter.kind import DrafterKind
from engine.drafter.layout import DrafterLayout
from engine.drafter.model import DEFAULT
from engine.events import AnyEvent, read
from engine.rollout.interface import Completion, RolloutStatistics
from engine.rollout.native.engine import NativeEngine
from engine.rollout.sglang import host_process
from engine.rollout.sglang.arguments import environment
from engine.rollout.sglang.engine import SGLangEngine
from engine.rollout.sglang.model_modules import others

TESTS = Path(__file__).parent
CPU = torch.device("cpu")
MORE = {"gpt2", "stablelm"}
USUAL: dict[str, Any] = {"end_tokens": frozenset(), "device": CPU}
needs_sglang = [
    pytest.mark.skipif(
        importlib.util.find_spec("sglang") is None, reason="SGLang is not installed: python3 infra/bootstrap.py test does it"
    ),
    pytest.mark.slow,
]


@contextmanager
def on_the_cpu(ranks: int = 1) -> Iterator[None]:
    """Processes that are started inside run SGLang with the stand-in for its kernels."""
    bound = {"SGLANG_CPU_OMP_THREADS_BIND": "|".join(["0"] * ranks)}  # else each rank needs a NUMA node; without AMX nothing is bound
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (STAND_IN | bound).items():
            patch.setenv(name, value)
        patch.setattr(host_process, "sys", SimpleNamespace(executable=sglang_python()))
        yield


@functools.cache
def sglang_python() -> str:
    """An interpreter whose processes have SGLang imported, in the environment that it is to have; of models that are not ours, ``MORE``."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (STAND_IN | environment() | {"SGLANG_DISABLED_MODEL_ARCHS": ",".join(others(None) - MORE)}).items():
            patch.setenv(name, value)
        return forked_python(*ENGINE, *SGLANG)


def run(config: dict[str, Any], out: Path, ranks: int = 1) -> list[AnyEvent]:
    """Events of a whole run in ``out``, in processes of its own; each worker is over so many ``ranks``."""
    (out / "config.yaml").write_text(yaml.safe_dump(config))
    with on_the_cpu(ranks):
        command = [sglang_python(), "-m", "engine", "run", str(out / "config.yaml"), "--out", str(out)]
        environment = os.environ | {"LONGTAIL_HOME": str(out / "home")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1100, start_new_session=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return list(read(out / "events.jsonl"))


def weights_of(model: PreTrainedModel) -> dict[str, Tensor]:
    return {name: weight.detach() for name, weight in model.named_parameters()}


def random_drafter(model: PreTrainedModel, seed: int = 1, kind: DrafterKind = "eagle") -> dict[str, Tensor]:
    torch.manual_seed(seed)
    return make_drafter(kind, model.config).state_dict()


def trained_eagle3(
    model: PreTrainedModel, responses: Sequence[Completion], vocabulary: Tensor | None = None, layout: DrafterLayout = DEFAULT
) -> dict[str, Tensor]:
    """A drafter that knows the responses mostly by heart."""
    torch.manual_seed(0)
    return trained(make_drafter("eagle3", model.config, vocabulary, layout), "eagle3", model, responses, unroll=4)


def shapes(*shapes: tuple[int, int, int], tuner: Mapping[str, Any] | None = None) -> SpeculationConfig:
    """Drafts of each depth, top_k and verify, for any batch size; those of the first always, or as ``tuner`` decides."""
    strategies = [{"depth": depth, "top_k": top_k, "verify": verify} for depth, top_k, verify in shapes]
    data: dict[str, Any] = {"threshold": 10_000, "strategies": strategies, "tuner": tuner or {"name": "fixed"}}
    return SpeculationConfig.model_validate(data | {"suffix": {"enabled": False}})


def chains(*depths: int, tuner: Mapping[str, Any] | None = None) -> SpeculationConfig:
    return shapes(*((depth, 1, depth) for depth in depths), tuner=tuner)


@contextmanager
def sglang_engine(
    folder: Path, model: PreTrainedModel, rollout: RolloutConfig, speculation: SpeculationConfig | None = None, **more: Any
) -> Iterator[SGLangEngine]:
    """On a CPU, unless ``more`` names another device."""
    more = USUAL | more
    with on_the_cpu(rollout.sglang.tensor_parallel) if more["device"] == CPU else nullcontext():
        engine = SGLangEngine(folder, model.config, weights_of(model), rollout=rollout, speculation=speculation, **more)
        try:
            yield engine
        finally:
            engine.close()


def native_engine(
    model: PreTrainedModel, rollout: RolloutConfig, speculation: SpeculationConfig | None = None, **more: Any
) -> NativeEngine:
    more = USUAL | more
    return NativeEngine(model.config, weights_of(model), rollout=rollout, speculation=speculation, **more)


def accept_length(statistics: RolloutStatistics) -> float:
    """Tokens that a draft brings with the target's own one, behind an end token, too: so does each engine count positions."""
    return 1 + sum(statistics.accepted_by_position) / statistics.drafted_by_position[0]
