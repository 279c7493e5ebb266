"""Responses of a generation that still runs, with their hidden states, on their way into a data buffer."""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from engine.drafter.data_buffer import Entry, entries_of
from engine.models.device_to_host import HostCopy
from engine.rollout.interface import Completion


class FinishedResponses:
    """What a DataBuffer of ``limit`` bytes will keep of them, and no more, whenever it gets them: they count as in ``order`` (request ids),
    whichever finishes first, and by default as they finish. ``bytes`` is what they take, but for the one that came last, of which nothing
    is known until the next one comes: a GPU may still be writing it. ``on_more`` is told of ``bytes`` when there are more."""

    def __init__(self, limit: int, order: Iterable[int] | None = None, on_more: Callable[[int], object] = lambda _: None) -> None:
        self._limit, self._on_more = limit, on_more
        self._places = None if order is None else {request: place for place, request in enumerate(order)}
        self._last: tuple[Completion, HostCopy] | None = None
        self._begin()

    def _begin(self) -> None:
        self.bytes = 0
        self._entries: dict[int, list[Entry]] = {}
        self._held: list[tuple[int, int]] = []
        self._dropped = (-1, 0)
        """Place and window of the newest entry that the buffer would not have. All before it would not be there, either."""

    def keep(self, completion: Completion, features: HostCopy) -> None:
        """As of ``KeepFeatures``."""
        self._add_last()
        self._last = completion, features

    def take(self) -> list[list[Entry]]:
        """The entries of each response since the last call, for ``DataBuffer.remember``. Those that it would drop take no memory."""
        self._add_last()
        taken = [self._entries[place] for place in sorted(self._entries)]
        self._begin()
        return taken

    def _add_last(self) -> None:
        if self._last is None:
            return
        (completion, features), self._last = self._last, None
        request = completion.request
        place = len(self._entries) if self._places is None else self._places[request.id]
        tokens = (*request.prompt, *completion.tokens)
        self._entries[place] = entries_of(tokens, len(request.prompt), features.take(), self._limit)
        for window, entry in enumerate(self._entries[place]):
            self.bytes += entry.bytes
            heappush(self._held, (place, window))
        while self._held and (self.bytes > self._limit or self._held[0] < self._dropped):
            self._dropped = max(self._dropped, self._held[0])
            self._drop(*heappop(self._held))
        self._on_more(self.bytes)

    def _drop(self, place: int, window: int) -> None:
        entry = self._entries[place][window]
        self.bytes -= entry.bytes
        self._entries[place][window] = entry.without_memory()
