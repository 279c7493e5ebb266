"""SGLang by itself, without our engine and plugin, in a process of its own: ``python -m engine.bench.bare_sglang`` is that process.

It reads JSON, and the last line that it prints is JSON.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from engine.bench.provenance import ROOT
from engine.errors import ConfigError
from engine.rollout.interface import Sampling
from engine.rollout.sglang.arguments import CPU, environment

KERNELS = ROOT / "tests" / "sglang_cpu"
"""The stand-in for SGLang's kernels, which has none for a CPU."""
STAND_IN = {
    "PYTHONPATH": os.pathsep.join(map(str, (ROOT, KERNELS))),
    "SGLANG_USE_CPU_ENGINE": "1",
    "TORCHDYNAMO_DISABLE": "1",  # else the first draft waits 24 s for a compiler
    "OMP_NUM_THREADS": "1",
    "SGLANG_CPU_OMP_THREADS_BIND": "0",
}
PLAIN: dict[str, Any] = {
    "skip_tokenizer_init": True,
    "sampling_backend": "pytorch",
    "grammar_backend": "none",
    "log_level": "error",
}
BATCH = 8
SPARE = 64
"""Places in the cache for a request's drafts."""
SECONDS = 3600
Rollout = tuple[Sequence[tuple[int, ...]], Sampling]
"""Prompts, and how to respond to each."""


@dataclass(frozen=True)
class Served:
    """``drafts`` were accepted in ``passes`` of the target, one a request; behind an end token, too, as our engine counts them.
    ``seconds`` are those of the whole rollout."""

    tokens: list[tuple[int, ...]]
    drafts: int
    passes: int
    seconds: float

    @property
    def accept_length(self) -> float:
        return 1 + self.drafts / self.passes


def drafting(folder: Path, depth: int, top_k: int = 1, verify: int | None = None, algorithm: str = "EAGLE") -> dict[str, Any]:
    """SGLang's arguments for chains or trees of the drafter in ``folder``, of which ``verify`` tokens are checked."""
    return {
        "speculative_algorithm": algorithm,
        "speculative_draft_model_path": str(folder),
        "speculative_num_steps": depth,
        "speculative_eagle_topk": top_k,
        "speculative_num_draft_tokens": (verify or depth) + 1,
    }


def serve(model: Path, rollouts: Sequence[Rollout], **arguments: Any) -> list[Served]:
    """The responses of each rollout; the end tokens are those that the model's folder names. ConfigError if SGLang does not run."""
    on_gpu = torch.cuda.is_available()
    longest = max(len(prompt) + sampling.max_new_tokens for prompts, sampling in rollouts for prompt in prompts)
    device = {} if on_gpu else CPU | {"mem_fraction_static": 0.1, "max_total_tokens": BATCH * (longest + SPARE)}
    asked = {
        "arguments": PLAIN | {"model_path": str(model), "max_running_requests": BATCH} | device | arguments,
        "rollouts": [(prompts, _sampling(sampling)) for prompts, sampling in rollouts],
    }
    with kernels():
        done = subprocess.run(
            [sys.executable, "-m", "engine.bench.bare_sglang"],
            input=json.dumps(asked),
            env=os.environ | environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            start_new_session=True,
            check=False,
        )
    if done.returncode:
        raise ConfigError(f"SGLang ended with {done.returncode}: {done.stderr[-3000:]}")
    return [_served(each) for each in json.loads(done.stdout.strip().splitlines()[-1])]


@contextmanager
def kernels() -> Iterator[None]:
    """Processes that are started inside have kernels for SGLang: without a GPU the stand-in."""
    on_gpu = torch.cuda.is_available()
    if not on_gpu and not KERNELS.is_dir():
        raise ConfigError("SGLang has no kernels for a CPU, and their stand-in is in a checkout of Longtail only: use a GPU or a checkout")
    with patch.dict(os.environ, {} if on_gpu else STAND_IN):
        yield


def _sampling(sampling: Sampling) -> dict[str, Any]:
    return {"temperature": sampling.temperature, "top_p": sampling.top_p, "max_new_tokens": sampling.max_new_tokens}


def _served(rollout: Mapping[str, Any]) -> Served:
    responses = rollout["responses"]
    drafts, passes = (sum(each["meta_info"].get(name, 0) for each in responses) for name in ("spec_num_correct_drafts", "spec_verify_ct"))
    return Served([tuple(each["output_ids"]) for each in responses], drafts, passes, rollout["seconds"])


def main() -> None:
    import sglang

    asked = json.load(sys.stdin)
    engine = sglang.Engine(**asked["arguments"])
    found = []
    for prompts, sampling in asked["rollouts"]:
        began = time.perf_counter()
        responses = engine.generate(input_ids=prompts, sampling_params=sampling)
        found.append({"responses": responses, "seconds": time.perf_counter() - began})
    print(json.dumps(found), flush=True)
    engine.shutdown()


if __name__ == "__main__":
    main()
