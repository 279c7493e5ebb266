"""From names in the configuration, or import paths, to the functions of an algorithm."""

from engine import own_functions
from engine.policy.advantages import ADVANTAGES, Advantage
from engine.policy.config import AlgorithmConfig
from engine.policy.losses import LOSSES, PolicyLoss


def advantage(config: AlgorithmConfig) -> Advantage:
    """ConfigError if an import path leads to no function."""
    return ADVANTAGES.get(config.advantage) or own_functions.load("algorithm.advantage", config.advantage)


def policy_loss(config: AlgorithmConfig) -> PolicyLoss:
    """ConfigError if an import path leads to no function."""
    return LOSSES.get(config.loss) or own_functions.load("algorithm.loss", config.loss)
