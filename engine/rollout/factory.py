"""The configured rollout engine of a worker."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from engine.config import RunConfig
from engine.drafter.kind import RECIPE_KINDS
from engine.models.folder import home
from engine.models.load import end_tokens
from engine.policy.training.policy import Policy
from engine.rollout.data_type import data_type
from engine.rollout.native.engine import NativeEngine
from engine.rollout.sglang.engine import SGLangEngine

Engine = NativeEngine | SGLangEngine


def build_engine(
    config: RunConfig,
    rank: int,
    folder: Path,
    policy: Policy,
    tokenizer: PreTrainedTokenizerBase,
    device: torch.device,
    drafter: Mapping[str, Tensor] | None,
    ranks: dist.ProcessGroup | None = None,
) -> Engine:
    """Holds the weights of ``policy``, and ``drafter`` if there is one. ``folder`` is where the policy came from; ``ranks`` are those of
    the worker, see ``SGLangEngine``. A native one knows no costs before ``measure_costs``."""
    model, weights = policy.model, policy.weights()

    def decode(tokens: list[int]) -> str:
        return str(tokenizer.decode(tokens))

    shared: dict[str, Any] = {
        "rollout": config.rollout,
        "speculation": config.speculation if config.speculation.enabled else None,
        "end_tokens": end_tokens(model, tokenizer),
        "device": device,
        "drafter_weights": drafter,
        "dtype": data_type(config, device, model.config.hidden_size),
        "seed": config.seed + rank,
        "decode": decode,
        "drafter_kind": RECIPE_KINDS[config.drafter.recipe],
    }
    if config.rollout.engine == "sglang":
        return SGLangEngine(folder, model.config, weights, ranks=ranks, **shared)
    return NativeEngine(model.config, weights, costs=home() / "costs", costs_later=True, **shared)
