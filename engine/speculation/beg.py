"""BEG-MAB: the bucketed epsilon-greedy bandit of TLT (Algorithm 1)."""

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Any

from engine.config import BegConfig
from engine.events import ArmStatistics
from engine.speculation.arms import ArmCounts
from engine.speculation.strategy import OFF, Strategy


class BegTuner:
    """Algorithm 1, with what it leaves open settled as follows.

    Bucket i holds the strategies of the i-th largest ``verify``, and one arm more: OFF, plain decoding. OFF has rewards of its own
    in every bucket. An arm that was never measured comes first. As in Algorithm 1, the rewards (tokens per second) of all batch
    sizes of a bucket share one window. Its accept lengths A_s decide nothing; ``take_arms`` reports their totals.
    """

    def __init__(self, strategies: Sequence[Strategy], config: BegConfig, rng: random.Random) -> None:
        """ValueError unless there is a threshold for each distinct ``verify``."""
        groups = sorted({strategy.verify for strategy in strategies}, reverse=True)
        self._thresholds = config.thresholds
        self._epsilon = config.epsilon
        self._window = config.window
        self._rng = rng
        self._counts = ArmCounts()
        self._rewards: list[dict[Strategy, deque[float]]] = [
            {arm: deque(maxlen=config.window) for arm in (*(s for s in strategies if s.verify == verify), OFF)}
            for _, verify in zip(config.thresholds, groups, strict=True)
        ]

    def select(self, batch: int) -> Strategy:
        rewards = self._rewards[self._bucket(batch)]
        for arm, measured in rewards.items():
            if not measured:
                return arm
        if self._rng.random() < self._epsilon:
            return self._rng.choice(list(rewards))
        return max(rewards, key=lambda arm: median(rewards[arm]))

    def record(self, strategy: Strategy, batch: int, accepted: Sequence[int], elapsed: float) -> None:
        bucket = self._bucket(batch)
        accept_length = sum(accepted) / batch + 1
        self._rewards[bucket][strategy].append(accept_length * batch / elapsed)
        self._counts.add(self._thresholds[bucket], strategy, accepted, elapsed)

    def take_arms(self) -> list[ArmStatistics]:
        return self._counts.take()

    def state(self) -> dict[str, Any]:
        version, numbers, gauss = self._rng.getstate()
        rewards = [{str(arm): list(measured) for arm, measured in bucket.items()} for bucket in self._rewards]
        return {"rng": [version, list(numbers), gauss], "rewards": rewards}

    def load_state(self, state: dict[str, Any]) -> None:
        version, numbers, gauss = state["rng"]
        self._rng.setstate((version, tuple(numbers), gauss))
        for bucket, saved in zip(self._rewards, state["rewards"], strict=True):
            for arm in bucket:
                bucket[arm] = deque(saved[str(arm)], maxlen=self._window)

    def _bucket(self, batch: int) -> int:
        return bisect_right(self._thresholds, batch) - 1
