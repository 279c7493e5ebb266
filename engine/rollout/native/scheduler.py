"""Which requests wait, which run, and in which slot: a running request's index is its slot, so slots 0 .. n - 1 are the batch."""

from collections import deque
from collections.abc import Callable, Collection, Sequence, Set

from engine.errors import DataError
from engine.events import Source
from engine.rollout.base import SOURCES, Finish, Request


class Response:
    """A request and what has been generated for it, by earlier rollouts, too. ``length`` counts the known tokens, the prompt's included;
    all but the newest have been through the target. ``drafted`` is the number of its positions that the drafter has seen, ``sources`` as
    of Completion."""

    def __init__(self, request: Request) -> None:
        self.request, self.id, self.group = request, request.id, request.group
        self.tokens = list(request.begun.tokens)
        self.logprobs = list(request.begun.logprobs)
        self.generated = len(self.tokens)
        self.length = len(request.prompt) + self.generated
        self.finish: Finish | None = None
        self.drafted = 0
        self.sources = bytearray()

    @property
    def known(self) -> tuple[int, ...]:
        """The known tokens."""
        return (*self.request.prompt, *self.tokens)

    def made(self, tokens: int, drafts: int, drafter: Source) -> None:
        """Of the newest ``tokens`` the first ``drafts`` are the drafter's, and the rest the target's own."""
        self.sources += bytes([SOURCES.index(drafter)]) * drafts + bytes(tokens - drafts)

    def extend(self, tokens: Sequence[int], logprobs: Sequence[float], ends: "Ends", limit: int) -> int:
        """Appends tokens up to the one that ends the response or the limit; returns how many."""
        for token, logprob in zip(tokens, logprobs, strict=True):
            self.tokens.append(token)
            self.logprobs.append(logprob)
            if ends.reached(self.tokens):
                self.finish = "stop"
                break
            if len(self.tokens) == limit:
                self.finish = "length"
                break
        kept = len(self.tokens) - self.generated
        self.generated += kept
        self.length += kept
        return kept


class Ends:
    """What ends a response: an end token, or text that contains one of the ``stop`` strings."""

    def __init__(self, tokens: Set[int], stop: Sequence[str] = (), decode: Callable[[list[int]], str] | None = None) -> None:
        """DataError if there are stop strings, but nothing to ``decode`` tokens with."""
        if stop and decode is None:
            raise DataError("stop strings need a tokenizer: make the engine with decode")
        self._tokens, self._stop, self._decode = tokens, stop, decode
        self._window = max((len(text.encode()) for text in stop), default=0)  # a token is at least one byte

    def reached(self, tokens: list[int]) -> bool:
        """Whether the newest of ``tokens`` ends the response."""
        if tokens[-1] in self._tokens:
            return True
        if not self._stop or self._decode is None:
            return False
        text = self._decode(tokens[-self._window :])
        return any(stop in text for stop in self._stop)


class Scheduler:
    """Continuous batching over a fixed number of slots, first come, first served."""

    def __init__(self, responses: Sequence[Response], slots: int) -> None:
        self.waiting = deque(responses)
        self.running: list[Response] = []
        self._slots = slots

    @property
    def unfinished(self) -> int:
        return len(self.waiting) + len(self.running)

    def admit(self) -> tuple[range, list[tuple[int, int]]]:
        """Fills the free slots. Returns the new slots to prefill, those of responses that go on last, and (source, target) slots of those
        that copy an equal prompt."""
        first = len(self.running)
        if not self.waiting or first == self._slots:
            return range(0), []
        holders = {response.request.prompt: slot for slot, response in enumerate(self.running)}
        new, begun, siblings = list[Response](), list[Response](), list[Response]()
        while self.waiting and first + len(new) + len(begun) + len(siblings) < self._slots:
            response = self.waiting.popleft()
            if response.tokens:
                begun.append(response)
            elif response.request.prompt in holders:
                siblings.append(response)
            else:
                holders[response.request.prompt] = first + len(new)
                new.append(response)
        self.running += new + begun + siblings
        prefill = range(first, first + len(new) + len(begun))
        return prefill, [(holders[response.request.prompt], slot) for slot, response in enumerate(siblings, prefill.stop)]

    def abort(self, requests: Collection[int] | None) -> list[tuple[int, int]]:
        """Ends those that are among ``requests`` (ids; None for all); returns moves as ``retire`` does."""
        for response in (*self.running, *self.waiting):
            if requests is None or response.id in requests:
                response.finish = "abort"
        self.waiting = deque(response for response in self.waiting if not response.finish)
        return self.retire()

    def retire(self) -> list[tuple[int, int]]:
        """Drops the finished; the last running request takes a freed slot. Returns these moves as (source, target) slots."""
        moves = []
        for slot in range(len(self.running)):
            while self.running and self.running[-1].finish:
                self.running.pop()
            if slot < len(self.running) and self.running[slot].finish:
                self.running[slot] = self.running.pop()
                moves.append((len(self.running), slot))
        return moves
