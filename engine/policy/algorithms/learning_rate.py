"""The learning rate of the policy over a run. Pure."""

from math import cos, pi

from engine.config.algorithm import AlgorithmConfig


def learning_rate(config: AlgorithmConfig, step: int) -> float:
    """Of ``step``, from 0: rising in a straight line over ``warmup_steps``, then as ``schedule`` says."""
    risen = min(1.0, (step + 1) / (config.warmup_steps + 1))
    passed = max(0, step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    left = {"constant": 1.0, "linear": 1 - passed, "cosine": (1 + cos(pi * passed)) / 2}[config.schedule]
    return config.learning_rate * risen * left
