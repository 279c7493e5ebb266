"""A worker's rollout as another thread sees it: which groups are complete, and ending it early."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from engine.rollout.interface import Completion, Request


class WorkerEarlyStop:
    """``abort`` ends all that the engine generates. What comes for a step that is not running changes nothing."""

    def __init__(self, abort: Callable[[], None]) -> None:
        self._abort = abort
        self._lock = threading.Lock()
        self._step: int | None = None
        self._asked, self._left = 0, Counter[int]()
        self._completions: dict[int, list[Completion]] = {}

    @contextmanager
    def rollout(self, step: int, requests: Sequence[Request]) -> Iterator[None]:
        """Inside the block ``requests`` are generated for ``step``."""
        with self._lock:
            self._step, self._asked, self._left = step, len(requests), Counter(request.group for request in requests)
            self._completions = {group: [] for group in self._left}
        try:
            yield
        finally:
            with self._lock:
                self._step = None
                self._completions = {}

    def finished(self, completion: Completion) -> None:
        self._completions[completion.request.group].append(completion)
        self._left[completion.request.group] -= 1

    def complete(self, step: int) -> int:
        """How many groups are complete."""
        with self._lock:
            return sum(not left for left in self._left.values()) if step == self._step else 0

    def complete_group(self, step: int, taken: Collection[int]) -> list[Completion]:
        """The responses of a complete group that is not among ``taken``; none if there is no such group."""
        with self._lock:
            complete = (group for group, left in self._left.items() if step == self._step and not left and group not in taken)
            return next((list(self._completions[group]) for group in complete), [])

    def responses(self, step: int) -> int:
        """How many responses are there."""
        with self._lock:
            return self._asked - self._left.total() if step == self._step else 0

    def stop_early(self, step: int) -> None:
        """Ends what is not finished."""
        with self._lock:
            if step == self._step:
                self._abort()
