"""BEG-MAB: the bucketed epsilon-greedy bandit of TLT (Algorithm 1)."""

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Any

from engine.config import BegConfig
from engine.events import ArmStatistics
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.arm_counts import ArmCounts


class BegTuner:
    """Algorithm 1, with what it leaves open settled as follows.

    Bucket i holds the strategies of the i-th largest ``verify`` and, unless ``off_arm`` is false, one arm more: OFF, with rewards of
    its own in every bucket. An arm that was never measured comes first. As in Algorithm 1, the rewards (tokens per second) of all
    batch sizes of a bucket share one window. Its accept lengths A_s decide nothing; ``take_arms`` reports their totals. A bucket
    whose drafters all fail decodes plainly, unmeasured.
    """

    def __init__(self, strategies: Sequence[Strategy], config: BegConfig, rng: random.Random) -> None:
        """ValueError unless there is a threshold for each distinct ``verify``, or no thresholds at all."""
        groups = sorted({strategy.verify for strategy in strategies}, reverse=True)
        self._thresholds = config.thresholds or tuple(2**index for index in range(len(groups)))
        self._epsilon = config.epsilon
        self._window = config.window
        self._rng = rng
        self._counts = ArmCounts()
        off = (OFF,) if config.off_arm else ()
        self._rewards: list[dict[Strategy, deque[float]]] = [
            {arm: deque(maxlen=config.window) for arm in (*(s for s in strategies if s.verify == verify), *off)}
            for _, verify in zip(self._thresholds, groups, strict=True)
        ]

    def select(self, context: Context) -> Strategy:
        bucket = self._rewards[self._bucket(context.batch)]
        arms = [arm for arm in bucket if arm.drafter in context.drafters]
        for arm in arms:
            if not bucket[arm]:
                return arm
        if len(arms) < 2:
            return arms[0] if arms else OFF
        if self._rng.random() < self._epsilon:
            return self._rng.choice(arms)
        return max(arms, key=lambda arm: median(bucket[arm]))

    def going_on(self, context: Context) -> Strategy | None:  # noqa: ARG002
        """It chooses anew for every step."""
        return None

    def record(self, strategy: Strategy, context: Context, accepted: Sequence[int], elapsed: float) -> None:
        bucket, batch = self._bucket(context.batch), context.batch
        accept_length = sum(accepted) / batch + 1
        if strategy in self._rewards[bucket]:
            self._rewards[bucket][strategy].append(accept_length * batch / elapsed)
        self._counts.add(self._thresholds[bucket], strategy, accepted, elapsed)

    def take_arms(self) -> list[ArmStatistics]:
        return self._counts.take()

    def state(self) -> dict[str, Any]:
        version, numbers, gauss = self._rng.getstate()
        rewards = [{str(arm): list(measured) for arm, measured in bucket.items()} for bucket in self._rewards]
        return {"rng": [version, list(numbers), gauss], "rewards": rewards}

    def load_state(self, state: dict[str, Any]) -> None:
        """What was saved of other strategies than these, and of buckets beyond these, is left out: a resumed run may have others."""
        version, numbers, gauss = state["rng"]
        self._rng.setstate((version, tuple(numbers), gauss))
        for bucket, saved in zip(self._rewards, state["rewards"], strict=False):
            for arm in bucket:
                bucket[arm] = deque(saved.get(str(arm), ()), maxlen=self._window)

    def _bucket(self, batch: int) -> int:
        return bisect_right(self._thresholds, batch) - 1
