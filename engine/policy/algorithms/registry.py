"""From names in the configuration, or import paths, to the functions of an algorithm."""

from engine.config import import_path
from engine.config.algorithm import AlgorithmConfig
from engine.policy.algorithms.advantages import ADVANTAGES, Advantage
from engine.policy.algorithms.losses import LOSSES, PolicyLoss


def advantage(config: AlgorithmConfig) -> Advantage:
    """ConfigError if an import path leads to no function."""
    return ADVANTAGES.get(config.advantage) or import_path.load_function("algorithm.advantage", config.advantage)


def policy_loss(config: AlgorithmConfig) -> PolicyLoss:
    """ConfigError if an import path leads to no function."""
    return LOSSES.get(config.loss) or import_path.load_function("algorithm.loss", config.loss)
