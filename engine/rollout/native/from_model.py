"""Native engines on a loaded model with no run around them, for measurements."""

from collections.abc import Mapping, Set
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine.config import FixedConfig, RolloutConfig, SpeculationConfig, StrategyConfig, SuffixConfig
from engine.drafter.kind import DrafterKind
from engine.rollout.native.engine import NativeEngine


def engine_from_model(
    model: PreTrainedModel,
    end_tokens: Set[int],
    speculation: SpeculationConfig | None,
    drafter: Mapping[str, Tensor] | None = None,
    kind: DrafterKind = "eagle",
    *,
    rollout: RolloutConfig | None = None,
    costs: Path | None = None,
    dtype: torch.dtype | None = None,
) -> NativeEngine:
    """An engine with a copy of ``model``'s weights, in its data type unless it is ``dtype``, and on its device; see ``NativeEngine``."""
    return NativeEngine(
        model.config,
        {name: weight.detach() for name, weight in model.named_parameters()},
        rollout=rollout or RolloutConfig(),
        speculation=speculation,
        end_tokens=end_tokens,
        device=model.device,
        drafter_weights=drafter,
        dtype=dtype or model.dtype,
        costs=costs,
        drafter_kind=kind,
    )


def fixed_strategy(strategy: StrategyConfig) -> SpeculationConfig:
    """Always ``strategy``, at every batch size, without suffix drafts unless it is an n-gram one."""
    suffix = SuffixConfig(enabled=strategy.drafter == "ngram")
    return SpeculationConfig(threshold=2**20, strategies=(strategy,), tuner=FixedConfig(), suffix=suffix)
