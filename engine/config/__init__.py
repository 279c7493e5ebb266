"""RunConfig: everything that decides a run. Unknown keys are errors. The defaults are a good TLT run of the built-in task."""

from engine.config.cluster import ClusterConfig
from engine.config.drafter import DrafterConfig, SpotConfig, TriggerConfig
from engine.config.parsing import describe, load, merged, parse
from engine.config.rollout import RolloutConfig, SGLangConfig
from engine.config.run import CheckpointConfig, EvaluationConfig, ModelConfig, RunConfig, own_code
from engine.config.speculation import (
    BegConfig,
    DrafterName,
    FixedConfig,
    GoodputConfig,
    SpeculationConfig,
    StrategyConfig,
    SuffixConfig,
    TunerConfig,
)

__all__ = [
    "BegConfig",
    "CheckpointConfig",
    "ClusterConfig",
    "DrafterConfig",
    "DrafterName",
    "EvaluationConfig",
    "FixedConfig",
    "GoodputConfig",
    "ModelConfig",
    "RolloutConfig",
    "RunConfig",
    "SGLangConfig",
    "SpeculationConfig",
    "SpotConfig",
    "StrategyConfig",
    "SuffixConfig",
    "TriggerConfig",
    "TunerConfig",
    "describe",
    "load",
    "merged",
    "own_code",
    "parse",
]
