"""A response while it is generated, and what ends it: the same for every engine."""

from collections.abc import Callable, Sequence, Set

from engine.errors import DataError
from engine.events import Source
from engine.rollout.interface import SOURCES, Completion, Finish, Request


class Response:
    """A request and what has been generated for it, by earlier rollouts, too. ``length`` counts the known tokens, the prompt's included;
    all but the newest have been through the target. ``drafted`` is the number of its positions that the drafter has seen, ``sources`` as
    of Completion. ``admitted``: it runs, or has run before it had to wait again."""

    def __init__(self, request: Request) -> None:
        self.request, self.id, self.group = request, request.id, request.group
        self.tokens = list(request.begun.tokens)
        self.logprobs = list(request.begun.logprobs)
        self.generated = len(self.tokens)
        self.length = len(request.prompt) + self.generated
        self.finish: Finish | None = None
        self.drafted = 0
        self.sources = bytearray()
        self.admitted = False

    @property
    def known(self) -> tuple[int, ...]:
        """The known tokens."""
        return (*self.request.prompt, *self.tokens)

    def made(self, tokens: int, drafts: int, drafter: Source) -> None:
        """Of the newest ``tokens`` the first ``drafts`` are the drafter's, and the rest the target's own."""
        self.sources += bytes([SOURCES.index(drafter)]) * drafts + bytes(tokens - drafts)

    def extend(self, tokens: Sequence[int], logprobs: Sequence[float], ends: "StopCondition", limit: int) -> int:
        """Appends tokens up to the one that ends the response or the limit; returns how many."""
        for token, logprob in zip(tokens, logprobs, strict=True):
            self.tokens.append(token)
            self.logprobs.append(logprob)
            if ends.reached(self.tokens):
                self.finish = "stop"
                break
            if len(self.tokens) >= limit:
                self.finish = "length"
                break
        kept = len(self.tokens) - self.generated
        self.generated += kept
        self.length += kept
        return kept

    def completion(self, target_version: int, drafter_version: int) -> Completion:
        """As it has ended, under these versions of the weights."""
        assert self.finish
        tokens, logprobs = tuple(self.tokens), tuple(self.logprobs)
        return Completion(self.request, tokens, logprobs, self.finish, target_version, drafter_version, bytes(self.sources))


class StopCondition:
    """What ends a response: an end token, or text that contains one of the ``stop`` strings."""

    def __init__(self, tokens: Set[int], stop: Sequence[str] = (), decode: Callable[[list[int]], str] | None = None) -> None:
        """DataError if there are stop strings, but nothing to ``decode`` tokens with."""
        if stop and decode is None:
            raise DataError("stop strings need a tokenizer: make the engine with decode")
        self._tokens, self._stop, self._decode = tokens, stop, decode
        # A token is at least one byte, and the first one may lose its space when it is decoded.
        self._window = 1 + max((len(text.encode()) for text in stop), default=0)

    def reached(self, tokens: list[int]) -> bool:
        """Whether the newest of ``tokens`` ends the response."""
        if tokens[-1] in self._tokens:
            return True
        if not self._stop or self._decode is None:
            return False
        text = self._decode(tokens[-self._window :])
        return any(stop in text for stop in self._stop)
