"""How many requests the cache of a worker holds at once."""

import numpy as np

from engine.config import RunConfig
from engine.planner.simulation.response_lengths import ResponseLengths

LEAST_ROOM = 2
"""Longest requests that the cache of a worker must hold."""


def requests_at_once(config: RunConfig, cache: int, lengths: ResponseLengths, prompt: float) -> int:
    """Of ``rollout.max_batch`` requests that begin together, with prompts of ``prompt`` tokens, so many as a ``cache`` of so many tokens
    holds without a pre-emption: what they have written is at its most some time before the longest ends."""
    rollout, algorithm = config.rollout, config.algorithm
    if rollout.cache_tokens and rollout.engine != "sglang":
        cache = min(cache, rollout.cache_tokens)
    drawn = lengths.draw(0, np.arange(algorithm.prompts_per_step), algorithm.group_size, rollout.max_new_tokens)
    falling = np.sort(drawn, axis=None)[::-1]
    running = np.arange(1, len(falling) + 1)
    held = float(np.max(running * (prompt + falling))) / len(falling)
    return max(LEAST_ROOM, min(rollout.max_batch, int(cache / held)))
