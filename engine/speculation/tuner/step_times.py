"""How measured step times depart from the predicted ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.speculation.tuner.acceptance_rates import Array

KNOWN, NOISE = 20.0, 0.1
"""Measurements that an arm's past counts as at most, and the standard deviation of the log of one."""


class StepTimes:
    """log(measured / predicted seconds) = machine + arm, in each bucket of batch sizes.

    Only the arms' parts decide. What surprises while one arm stays in use is the machine's, so that a slower machine changes no ranking;
    what surprises when another arm comes into use is the arm's, in the mean over all such times.
    """

    def __init__(self, arms: Sequence[str], trust: float) -> None:
        """``trust``: how many measurements of an arm the prediction is worth."""
        self._arms, self._trust = list(arms), trust
        self._machine = 0.0
        self.last: int | None = None  # the arm that was measured last
        self._buckets: dict[int, tuple[Array, Array]] = {}

    def corrections(self, bucket: int) -> Array:
        """Log factors [A] by which steps take longer than predicted; of a new bucket those of the nearest one."""
        return self._machine + self._parts(bucket)[0]

    def doubts(self, bucket: int) -> Array:
        """Standard deviations [A] of the corrections."""
        return np.asarray(NOISE / np.sqrt(np.maximum(self._trust + self._parts(bucket)[1], 1.0)))

    def update(self, arm: int, bucket: int, log_ratio: float) -> None:
        """``log_ratio``: of measured to predicted seconds."""
        offsets, measured = self._buckets[bucket] = self._parts(bucket)
        surprise = log_ratio - self._machine - offsets[arm]
        if self.last not in (None, arm):
            measured[arm] = min(measured[arm] + 1, KNOWN)
            offsets[arm] += surprise / (self._trust + measured[arm])
        self._machine = log_ratio - offsets[arm]
        self.last = arm

    def state(self) -> dict[str, Any]:
        buckets = [[bucket, *(each.tolist() for each in parts)] for bucket, parts in self._buckets.items()]
        return {"arms": self._arms, "machine": self._machine, "last": self.last, "buckets": buckets}

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what was learnt of the arms that both have."""
        self._machine, last = state["machine"], state["last"]
        self.last = None if last is None or state["arms"][last] not in self._arms else self._arms.index(state["arms"][last])
        mine, theirs = zip(*((self._arms.index(arm), place) for place, arm in enumerate(state["arms"]) if arm in self._arms), strict=True)
        for bucket, *saved in state["buckets"]:
            parts = np.zeros((2, len(self._arms)))
            parts[:, mine] = np.array(saved)[:, theirs]
            self._buckets[bucket] = parts[0], parts[1]

    def _parts(self, bucket: int) -> tuple[Array, Array]:
        """Those of the arms [A], and how often each was measured [A]."""
        if bucket in self._buckets or not self._buckets:
            return self._buckets.get(bucket, (np.zeros(len(self._arms)), np.zeros(len(self._arms))))
        offsets, measured = self._buckets[min(self._buckets, key=lambda known: abs(known - bucket))]
        return offsets.copy(), np.minimum(measured, 1.0)
