"""Ends the writing of responses in time, for a drafter that is to be trained on them in what is left."""

from collections.abc import Callable
from threading import Timer
from types import TracebackType

from engine.rollout.interface import Completion

LEAST = 8
"""Responses that are finished before the others are ended: of fewer none may be left to train on, as one prompt in eight is held out."""


class TimeLimit:
    """Inside the block all that is generated ends after ``seconds``, by ``abort``, but not before ``LEAST`` responses are finished."""

    def __init__(self, seconds: float, abort: Callable[[], None]) -> None:
        self._timer = Timer(seconds, self._over)
        self._abort, self._due, self._finished = abort, False, 0

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._timer.cancel()

    def finished(self, completion: Completion) -> None:  # noqa: ARG002
        """To be called with each response that is finished."""
        self._finished += 1
        self._end()

    def _over(self) -> None:
        self._due = True
        self._end()

    def _end(self) -> None:
        if self._due and self._finished >= LEAST:
            self._abort()
