"""What preflight says of a cache for one request is what the engine needs."""

from contextlib import nullcontext

import pytest
import torch
from native_cases import CPU, make_target, strategies

from engine.bench.emulated_cuda.device import EmulatedCuda
from engine.bench.emulated_cuda.memory import CUDA
from engine.config import RunConfig
from engine.errors import ConfigError, ModelError
from engine.preflight import check_cache
from engine.rollout.native.drafting import scratch
from engine.rollout.native.layout.page_table import PAGE
from engine.rollout.native.reach import LANES
from engine.rollout.native.runner import Runner
from engine.speculation.strategy import Strategy


@pytest.mark.parametrize(
    ("shape", "part", "needed"),
    [((4, 1, 4), LANES, 320), ((4, 1, 4), 256, 512), ((8, 4, 24), LANES, 384), ((8, 4, 24), 192, 640), ((2, 2, 2), 192, 384)],
)
def test_the_engine_has_room_for_what_passes(shape: tuple[int, int, int], part: int, needed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a page less it refuses the rollout: drafts of trees take much of a CPU's cache, and it reads no half blocks."""
    monkeypatch.setattr("engine.rollout.native.runner.part_length", lambda: part)
    on_cpu, speculation = part != LANES, strategies(shape)
    device = CPU if on_cpu else CUDA
    with nullcontext() if on_cpu else EmulatedCuda():
        longest = 300 + scratch(Strategy.of(speculation.strategies[0]), device) + 1
        for tokens in (needed, needed - PAGE):
            rollout = {"cache_tokens": tokens, "max_prompt_tokens": 99, "max_new_tokens": 201, "engine": "native"}
            asked = RunConfig.model_validate({"rollout": rollout, "speculation": speculation.model_dump()})
            runner = Runner(make_target().config, torch.empty(0, device=device), True, cache_tokens=tokens)
            if tokens == needed:
                check_cache(asked, (part,))
                runner.reserve(1, longest)
                continue
            with pytest.raises(ConfigError, match=rf"one request may need {needed} tokens .*, got {tokens}; set it to {needed} or more"):
                check_cache(asked, (part,))
            with pytest.raises(ModelError, match=f"the cache has room for {tokens} tokens"):
                runner.reserve(1, longest)
