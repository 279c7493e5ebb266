"""SGLang's own n-gram drafts: always on, of one length. Only counted: SGLang does not let them be changed or left out while it runs."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from engine.config import SpeculationConfig
from engine.rollout.decoding_timeline import DecodingTimeline
from engine.rollout.sglang.draft_counts import DraftCounts
from engine.speculation.strategy import Context, Strategy
from engine.speculation.tuner.fixed import FixedTuner


class NgramStatistics:
    """Stands where SGLang's n-gram worker has room for an adaptive controller, and hears of each verified step."""

    def __init__(self, config: SpeculationConfig, clock: Callable[[], float] = time.perf_counter) -> None:
        self._strategy = Strategy.of(config.strategies[0])
        self._tuner = FixedTuner(self._strategy)
        self._clock = clock
        self._counts, self._timeline = DraftCounts(), DecodingTimeline()
        self._ended = clock()

    @property
    def params(self) -> "NgramStatistics":
        """Where a controller has its policy."""
        return self

    def begin(self, limit: int, learn: bool = True) -> None:  # noqa: ARG002
        """A rollout starts."""
        self._ended = self._clock()

    def on_verify_complete(self, num_correct_drafts_per_req: Sequence[int]) -> None:
        """A step's time is that since the one before, so that the first one's has the prompts' in it."""
        now = self._clock()
        elapsed, self._ended = now - self._ended, now
        self._counts.add(self._strategy.verify, num_correct_drafts_per_req)
        self._timeline.add(len(num_correct_drafts_per_req), str(self._strategy))
        self._tuner.record(self._strategy, Context(len(num_correct_drafts_per_req)), num_correct_drafts_per_req, elapsed)

    def take_statistics(self) -> dict[str, Any]:
        """As ``StrategyPolicy.take_statistics``."""
        arms = [arm.model_dump() for arm in self._tuner.take_arms()]
        return self._counts.take() | {"arms": arms, "alarms": [], "moments": self._timeline.take()}
