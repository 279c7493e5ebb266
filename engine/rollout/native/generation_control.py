"""What other threads ask of a generation: to end some of its responses, or to stand still."""

import threading
from collections.abc import Collection


class GenerationControl:
    """``begin`` and ``take`` are the generating thread's, the others anyone's."""

    def __init__(self) -> None:
        self._going = threading.Event()
        self._going.set()
        self._lock = threading.Lock()
        self._unwanted: frozenset[int] | None = frozenset()

    def begin(self) -> None:
        """What was asked of an earlier generation is forgotten."""
        with self._lock:
            self._unwanted = frozenset()

    def abort(self, requests: Collection[int] | None) -> None:
        with self._lock:
            self._unwanted = None if requests is None or self._unwanted is None else self._unwanted | frozenset(requests)

    def pause(self) -> None:
        self._going.clear()

    def proceed(self) -> None:
        self._going.set()

    @property
    def asked(self) -> bool:
        """Whether ``take`` would end or wait for something."""
        with self._lock:
            return not self._going.is_set() or self._unwanted is None or bool(self._unwanted)

    def take(self) -> frozenset[int] | None:
        """Waits while paused. The requests to end now, since the last call; None for all."""
        self._going.wait()
        with self._lock:
            unwanted, self._unwanted = self._unwanted, frozenset()
        return unwanted
