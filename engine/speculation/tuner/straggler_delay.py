"""What chance costs requests that would end together: the rollout waits for the one whose drafts were accepted least."""

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from engine.speculation.strategy import Context
from engine.speculation.tuner.step_time_correction import Array

LATE = 0.5
"""Seconds of a step in which the others are done already, as a share of one of the whole batch."""


def straggler_delay(context: Context, steps: Array, variance: Array) -> Array:
    """Tokens by which ``steps`` [A] of drafting delay the request that ends last, as whole-batch steps of plain decoding.

    ``variance`` [A]: of the tokens that a draft brings. Where lengths differ much anyway (``context.spread``), who ends last is
    decided by length, not luck, and drafting delays nothing; where all end at one length, it is the least lucky of the batch.
    """
    if math.isinf(context.spread):
        return np.zeros(len(steps))
    by_luck = steps * variance
    root: Array = np.sqrt(context.spread**2 + by_luck) + context.spread
    delay: Array = LATE * _farthest(context.batch) * by_luck / np.maximum(root, 1e-9)
    return delay


@lru_cache
def _farthest(count: int) -> float:
    """How far the least of ``count`` normal values lies from the mean, in standard deviations (Blom's approximation)."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))
