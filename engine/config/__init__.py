"""RunConfig: everything that decides a run. Unknown keys are errors. The defaults are a good TLT run of the built-in task."""

from engine.config.cluster import ClusterConfig
from engine.config.drafter import DrafterConfig, SpotConfig, TriggerConfig
from engine.config.host_paths import data_paths, model_paths
from engine.config.parsing import describe, load, merged, parse
from engine.config.rollout import RolloutConfig, SGLangConfig
from engine.config.run import CheckpointConfig, RunConfig, own_code
from engine.config.speculation import (
    BegConfig,
    DrafterName,
    FixedConfig,
    GoodputConfig,
    SpeculationConfig,
    StrategyConfig,
    SuffixConfig,
)

__all__ = [
    "BegConfig",
    "CheckpointConfig",
    "ClusterConfig",
    "DrafterConfig",
    "DrafterName",
    "FixedConfig",
    "GoodputConfig",
    "RolloutConfig",
    "RunConfig",
    "SGLangConfig",
    "SpeculationConfig",
    "SpotConfig",
    "StrategyConfig",
    "SuffixConfig",
    "TriggerConfig",
    "data_paths",
    "describe",
    "load",
    "merged",
    "model_paths",
    "own_code",
    "parse",
]
