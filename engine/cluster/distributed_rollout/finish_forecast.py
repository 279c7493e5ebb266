"""How long a worker's share still takes, from the predicted lengths of its responses and the pace of its decoding. Pure."""

from engine.rollout.interface import GenerationProgress

WINDOW = 0.2
"""Seconds that a measurement of the pace takes at least."""


def pace(before: GenerationProgress, now: GenerationProgress) -> float:
    """Tokens a second that a running request gains; 0 if nothing was generated in between.

    The one that gained most counts: others were admitted later.
    """
    gains = [tokens - before.generated.get(request, 0) for request, tokens in now.generated.items()]
    elapsed = now.time - before.time
    return max(gains, default=0) / elapsed if elapsed > 0 else 0.0


def remaining_tokens(progress: GenerationProgress, slots: int) -> float:
    """Tokens that the last request is predicted to be away from its end, if ``slots`` run at once.

    No schedule ends before the longest request does, nor before an even share of all (Graham's bounds).
    """
    needs = progress.remaining.values()
    return max(max(needs, default=0.0), sum(needs) / slots)


class FinishForecaster:
    """Of one rollout of one worker, which runs ``slots`` requests at once. The pace is that since the last measurement but one."""

    def __init__(self, began: float, slots: int) -> None:
        self._slots = slots
        self._before = GenerationProgress(began, {}, {})
        self._pace = 0.0

    def seconds(self, progress: GenerationProgress) -> float | None:
        """Until the share is done; None as long as there is no pace to judge by."""
        if not self._pace or progress.time - self._before.time >= WINDOW:
            self._pace = pace(self._before, progress) or self._pace
            self._before = progress
        if not progress.remaining:
            return 0.0
        return remaining_tokens(progress, self._slots) / self._pace if self._pace else None
