"""The tail of a rollout: when few requests are left, each gets its own draft so that the last one finishes first."""

from collections.abc import Sequence
from functools import cache

from engine.speculation.remaining_length import RemainingLengthPredictor
from engine.speculation.strategy import OFF, Context, RunningRequest, Strategy
from engine.speculation.tail_assignment import plan_tail
from engine.speculation.tuner.goodput import GoodputTuner
from engine.speculation.tuner.interface import Tuner

STEPS = 64
"""Decode steps for which a plan holds, while the same requests run."""
WORTH_IT = 1.2
"""How much sooner the last request must be predicted to finish: predictions of lengths are often wrong, and slow all the others."""


class TailMode:
    """For batches of 2 to ``requests``. It needs a tuner that knows costs and acceptance (goodput)."""

    def __init__(self, requests: int, strategies: Sequence[Strategy], lengths: RemainingLengthPredictor) -> None:
        self._requests, self._arms, self._lengths = requests, strategies, lengths
        self._planned: tuple[Strategy, ...] | None = None
        self._key: object = None
        self._left = 0

    def is_even(self, batch: Sequence[RunningRequest], context: Context, tuner: Tuner) -> bool:
        """Whether ``strategies`` has planned one for all, and goes on with that."""
        if not self._applies(len(batch), tuner):
            return True
        return self._planned is None and self._left > 0 and self._key == _key(batch, context)

    def strategies(self, batch: Sequence[RunningRequest], context: Context, tuner: Tuner, limit: int) -> tuple[Strategy, ...] | None:
        """A strategy for each request; None where one for all is best, which is the tuner's choice."""
        if not (self._applies(len(batch), tuner) and isinstance(tuner, GoodputTuner)):
            return None
        key = _key(batch, context)
        if key != self._key or self._left == 0:
            self._planned, self._key, self._left = self._plan(batch, context, tuner, limit), key, STEPS
        self._left -= 1
        return self._planned

    def _applies(self, batch: int, tuner: Tuner) -> bool:
        return 1 < batch <= self._requests and isinstance(tuner, GoodputTuner)

    def _plan(self, batch: Sequence[RunningRequest], context: Context, tuner: GoodputTuner, limit: int) -> tuple[Strategy, ...] | None:
        remaining = [self._lengths.remaining(request.group, request.generated, limit) for request in batch]
        if max(remaining) < WORTH_IT * min(remaining):  # a mixed step costs no less than one of its cheaper strategy for all
            return None
        arms = [arm for arm in self._arms if arm.drafter in context.drafters]
        seconds = MixedSteps(tuner, context)

        def finish(plan: Sequence[Strategy]) -> float:
            paces = [1.0 if strategy == OFF else 1.0 + tuner.expected(strategy) for strategy in plan]
            return seconds(plan) * max(left / pace for left, pace in zip(remaining, paces, strict=True))

        plan = plan_tail(remaining, arms, tuner.expected, seconds)
        uniform = min(finish((arm,) * len(batch)) for arm in (OFF, *arms))
        return plan if finish(plan) * WORTH_IT < uniform else None


def _key(batch: Sequence[RunningRequest], context: Context) -> tuple[object, ...]:
    return tuple(request.id for request in batch), context.drafters, context.versions


class MixedSteps:
    """Seconds of a step in which each request has a strategy of its own."""

    def __init__(self, tuner: GoodputTuner, context: Context) -> None:
        self._target = cache(lambda tokens: tuner.predicted(Strategy("ngram", tokens, 1, tokens), context))
        self._uniform = cache(lambda shape: (tuner.predicted(shape, context), tuner.seconds(shape, context)))
        self._mixed = cache(self._of)

    def __call__(self, plan: Sequence[Strategy]) -> float:
        shape = max(plan, key=lambda strategy: (strategy.drafter == "eagle", strategy.verify))
        return self._mixed(shape, sum(strategy.verify for strategy in plan) / len(plan))

    def _of(self, shape: Strategy, verify: float) -> float:
        """A step that drafts in ``shape``, but verifies ``verify`` tokens a request on average: the target's part is for those."""
        fewer, share = int(verify), verify % 1
        mixed = (1 - share) * self._target(fewer) + (share * self._target(fewer + 1) if share else 0.0)
        predicted, seconds = self._uniform(shape)
        return seconds * (predicted - self._target(shape.verify) + mixed) / predicted
