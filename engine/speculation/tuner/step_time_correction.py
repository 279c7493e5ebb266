"""How measured step times depart from the predicted ones: a small Kalman filter."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NOISE = 0.1**2
"""Variance of the log time of a single step. The median of several is more certain, by 2 / (pi m)."""
UNKNOWN_MACHINE = 4.0**2
MACHINE_DRIFT = 0.01**2
"""What a step adds to the variance of the machine's speed."""
FORGETTING = 1 / 5000
"""What a step adds to the variance of an arm, as a share of its prior."""
SUSPECT = 3.0
"""Standard deviations beyond which a surprise is taken as the machine's, be it a hiccup or a lasting change."""


class StepTimeCorrection:
    """Belief about log(measured / predicted seconds) = machine + arm + arm at this batch bucket, jointly Gaussian.

    The machine's part is common to all arms and drifts, so that a slower machine changes no ranking; what one arm alone shows is its
    own. Comparing two arms only their own parts count, and how certain those are.
    """

    def __init__(self, arms: Sequence[str], deviation: float) -> None:
        """``deviation``: standard deviation, before any measurement, of the log error that the prediction makes for an arm."""
        self._arms = list(arms)
        self._variance = deviation**2
        self._buckets: dict[int, int] = {}
        self._mean: Array = np.zeros(0)
        self._covariance: Array = np.zeros((0, 0))
        self._grow([UNKNOWN_MACHINE] + [self._variance] * len(self._arms))

    def belief(self, bucket: int) -> tuple[Array, Array]:
        """Mean [A] and covariance [A, A] of the corrections of all arms in ``bucket``."""
        rows = self._parts(self._covariance, bucket)
        unmet = 0.0 if bucket in self._buckets else self._variance
        return self._parts(self._mean, bucket), self._parts(rows.T, bucket) + unmet * np.eye(len(self._arms))

    def update(self, arm: int, bucket: int, log_ratio: float, steps: int) -> None:
        """``log_ratio``: the median of log(measured / predicted) over ``steps`` steps of ``arm``."""
        self._block(bucket)
        diagonal = np.einsum("ii->i", self._covariance)
        diagonal[0] += MACHINE_DRIFT * steps
        diagonal[1:] += FORGETTING * steps * self._variance
        surprise = log_ratio - self._parts(self._mean, bucket)[arm]
        row, variance = self._innovation(arm, bucket, steps)
        if abs(surprise) > SUSPECT * variance**0.5:
            diagonal[0] += surprise**2
            row, variance = self._innovation(arm, bucket, steps)
        self._mean += row * (surprise / variance)
        self._covariance -= np.outer(row, row / variance)

    def state(self) -> dict[str, Any]:
        mean, covariance = self._mean.tolist(), self._covariance.tolist()
        return {"arms": self._arms, "buckets": list(self._buckets), "mean": mean, "covariance": covariance}

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what was learnt of the arms that both have; the others keep what they have."""
        for bucket in state["buckets"]:
            self._block(bucket)
        saved = {label: index for index, label in enumerate(_labels(state["arms"], state["buckets"]))}
        pairs = [(index, saved[label]) for index, label in enumerate(_labels(self._arms, self._buckets)) if label in saved]
        mine, theirs = np.array(pairs).T
        self._mean[mine] = np.asarray(state["mean"])[theirs]
        self._covariance[mine] = self._covariance[:, mine] = 0
        self._covariance[np.ix_(mine, mine)] = np.asarray(state["covariance"])[np.ix_(theirs, theirs)]

    def _innovation(self, arm: int, bucket: int, steps: int) -> tuple[Array, float]:
        """Covariance [D] of every part with what ``arm`` should show in ``bucket``, and the variance of what it will show."""
        row = self._parts(self._covariance, bucket)[arm]
        noise = NOISE * (np.pi / 2 if steps > 2 else 1.0) / steps
        return row, float(self._parts(row, bucket)[arm]) + noise

    def _parts(self, values: Array, bucket: int) -> Array:
        """The sum, for each arm, of the entries or rows of ``values`` that make up its correction in ``bucket``."""
        arms, block = len(self._arms), self._buckets.get(bucket)
        anywhere: Array = values[0] + values[1 : arms + 1]
        return anywhere if block is None else anywhere + values[block : block + arms]

    def _block(self, bucket: int) -> None:
        """Makes room for the arms in a bucket that was not met before."""
        if bucket not in self._buckets:
            self._buckets[bucket] = len(self._mean)
            self._grow([self._variance] * len(self._arms))

    def _grow(self, variances: list[float]) -> None:
        before, after = len(self._mean), len(self._mean) + len(variances)
        covariance = np.zeros((after, after))
        covariance[:before, :before] = self._covariance
        covariance[range(before, after), range(before, after)] = variances
        self._mean, self._covariance = np.append(self._mean, np.zeros(len(variances))), covariance


def _labels(arms: Sequence[str], buckets: Sequence[int] | dict[int, int]) -> list[tuple[str, int]]:
    return [("", 0), *((arm, 0) for arm in arms), *((arm, bucket) for bucket in buckets for arm in arms)]
