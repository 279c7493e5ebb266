"""The model-free drafter: a request goes on as siblings of its prompt did after the same tokens."""

import zlib
from array import array
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from engine.speculation.ngram.text_search import NOWHERE, JoinedTexts

SHORTEST, LONGEST = 3, 24  # tokens that must match, and at most do
NEWEST = 32  # places that vote at most
MOST_TOKENS = 1 << 16  # of a prompt, with its finished texts: a look-up reads them all
MOST_SAVED = 1 << 19  # tokens in a checkpoint
LOADED = -1  # stands for a request of an earlier process
_GROUP_BYTES, _TEXT_BYTES, _TOKEN_BYTES = 1500, 700, 9  # upper estimates


@dataclass(frozen=True, slots=True)
class Draft:
    """A chain of drafted ``tokens``, from places where the last ``match`` tokens of the request occurred before.

    ``confidence`` of a token is votes / (voters + 1): its share of the votes, shrunk the more the fewer there are. ``chances`` are
    ``DrafterSelector``'s: that the token and all before it are accepted.
    """

    tokens: tuple[int, ...] = ()
    match: int = 0
    confidence: tuple[float, ...] = ()
    chances: tuple[float, ...] = ()

    def first(self, length: int) -> "Draft":
        """The draft without the tokens after the first ``length``."""
        return Draft(self.tokens[:length], self.match, self.confidence[:length], self.chances[:length])


class _Text:
    """What a request writes; ``written`` may grow, and is read when somebody looks. ``order`` tells when a token was read; NOWHERE for the
    separator in front and for the end of the prompt, which is no place of this text."""

    __slots__ = ("_known", "_read", "_written", "order", "tokens")

    def __init__(self, known: "array[int]", written: Sequence[int]) -> None:
        self.tokens = array("i", (NOWHERE, *known))
        self.order, self._known = array("i", (NOWHERE,)) * len(self.tokens), len(self.tokens)
        self._written, self._read = written, 0

    def read(self, order: int) -> int:
        """Takes over what is new, the first token as number ``order``; returns how many there are."""
        new = len(self._written) - self._read
        if new:
            self.tokens.extend(self._written[self._read :])
            self.order.extend(range(order, order + new))
            self._read += new
        return new

    def close(self) -> None:
        """It grows no more."""
        self._written, self._read = (), 0

    @property
    def own(self) -> "array[int]":
        """What the request wrote, as far as it was read."""
        return self.tokens[self._known :]

    @property
    def context(self) -> "array[int]":
        """The last tokens, without the separator."""
        return self.tokens[max(1, len(self.tokens) - LONGEST) :]


class _Group:
    """The texts of one prompt, by number, the prompt's own among them. They are joined to one array when somebody looks into them."""

    def __init__(self, prompt: "array[int]", number: int) -> None:
        self.key = prompt.tobytes()
        self.texts: dict[int, _Text] = {}
        self.running: dict[int, _Text] = {}
        self.finished: list[int] = []  # in order of their ends
        self.length = self._order = 0
        self.bytes = _GROUP_BYTES + len(self.key)
        self._end_of_prompt = prompt[-LONGEST:]
        self._joined: JoinedTexts | None = None
        self.running[number] = self._add(number, array("i"), prompt)
        self._read()
        self.running.pop(number).close()

    def begin(self, number: int, written: Sequence[int]) -> None:
        """Who goes on after an interruption brings its beginning along, and has no sibling in it."""
        begun = array("i", written)
        for other in [each for each in self.finished if begun and self._continues(begun, each)]:
            self.finished.remove(other)
            self._drop(other)
        self.running[number] = self._add(number, self._end_of_prompt, written)

    def end(self, number: int) -> None:
        self._read()
        self.running.pop(number).close()
        self.finished.append(number)
        self._grow(0)  # what is joined may not be needed for long
        while self.length > MOST_TOKENS and len(self.finished) > 1:
            self.drop_oldest()

    @property
    def finished_texts(self) -> list["array[int]"]:
        """In order of their ends."""
        return [self.texts[number].own for number in self.finished]

    def drop_oldest(self) -> None:
        self._drop(self.finished.pop(0))

    def draft(self, number: int, limit: int) -> Draft:
        self._read()
        if self._joined is None:
            texts = self.texts.values()
            self._joined = JoinedTexts([text.tokens for text in texts], [text.order for text in texts])
            self.bytes += self._joined.bytes
        match, places = self._joined.longest(self.texts[number].context, NEWEST)
        if match < SHORTEST:
            return Draft()
        tokens, confidence = _vote(self._joined.following(places, limit), limit)
        return Draft(tokens, match, confidence) if tokens else Draft()

    def _continues(self, begun: "array[int]", number: int) -> bool:
        own = self.texts[number].own
        return begun[: len(own)] == own

    def _read(self) -> None:
        """What the running requests have written since the last time."""
        new = 0
        for text in self.running.values():
            new += text.read(self._order + new)
        if new:
            self._order += new
            self._grow(new)

    def _add(self, number: int, known: "array[int]", written: Sequence[int]) -> _Text:
        text = self.texts[number] = _Text(known, written)
        self.bytes += _TEXT_BYTES
        self._grow(len(text.tokens))
        return text

    def _drop(self, number: int) -> None:
        self._grow(-len(self.texts.pop(number).tokens))
        self.bytes -= _TEXT_BYTES

    def _grow(self, tokens: int) -> None:
        """By so many; what is joined is out of date."""
        if self._joined is not None:
            self.bytes -= self._joined.bytes
            self._joined = None
        self.length += tokens
        self.bytes += tokens * _TOKEN_BYTES


class SuffixStore:
    """What was written to each prompt, by running requests and by finished ones, also of earlier steps.

    Beyond ``memory_bytes`` prompts without a running request go, least recently used first, then the finished texts of the
    others, oldest first. Running requests stay, even if they alone exceed it. There is no index: what is written costs nothing until it
    is read, and a look-up reads all texts of its prompt, at some gigabytes a second.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory = memory_bytes
        self._numbers = count()
        self._active: dict[bytes, _Group] = {}
        self._idle: dict[bytes, _Group] = {}  # least recently used first
        self._requests: dict[int, tuple[_Group, int]] = {}
        self._bytes = 0  # in use, but for what nobody has read yet

    def begin(self, request: int, prompt: Sequence[int], written: Sequence[int]) -> None:
        """``written`` is what the request generates; it is read as it grows. ValueError if a request of this number is running."""
        if request in self._requests:
            raise ValueError(f"request {request} is running already")
        tokens = array("i", prompt)
        key = tokens.tobytes()
        group = self._active.get(key) or self._idle.pop(key, None)
        if group is None:
            group = _Group(tokens, next(self._numbers))
            self._bytes += group.bytes
        self._active[key] = group
        number = next(self._numbers)
        self._requests[request] = group, number
        before = group.bytes
        group.begin(number, written)
        self._changed(group, before)

    def end(self, request: int) -> None:
        """What it wrote stays, whether it is finished or interrupted."""
        group, number = self._requests.pop(request)
        before = group.bytes
        group.end(number)
        self._changed(group, before)
        if not group.running:
            self._idle[group.key] = self._active.pop(group.key)
            self._shrink()

    def draft(self, request: int, limit: int) -> Draft:
        """At most ``limit`` tokens that may follow the known text of ``request``; none if its last tokens are new.

        The newest places where the longest match occurred vote on the first token, those that were right on the second, and so on;
        on a tie the newest decides.
        """
        group, number = self._requests[request]
        before = group.bytes
        draft = group.draft(number, limit)
        self._changed(group, before)
        return draft

    def state(self) -> list[list[str]]:
        """For a checkpoint: of each prompt, least recently used first, its tokens and what finished requests wrote to it; prompts of the
        newest ``MOST_SAVED`` tokens. Plain JSON values."""
        saved: list[list[str]] = []
        tokens = 0
        for group in reversed([group for group in (*self._idle.values(), *self._active.values()) if group.finished]):
            texts = [_of_bytes(group.key), *group.finished_texts]
            if tokens + sum(map(len, texts)) > MOST_SAVED:
                continue
            tokens += sum(map(len, texts))
            saved.append([_packed(text) for text in texts])
        return saved[::-1]

    def load_state(self, state: Sequence[Sequence[str]]) -> None:
        """What a ``state`` has is as if it had just been written; what prompts that nobody runs had before is gone."""
        self._bytes -= sum(group.bytes for group in self._idle.values())
        self._idle.clear()
        for prompt, *texts in state:
            known = _unpacked(prompt)
            for text in texts:
                written: list[int] = []  # at first: nobody goes on with what is there
                self.begin(LOADED, known, written)
                written.extend(_unpacked(text))
                self.end(LOADED)

    def _changed(self, group: _Group, before: int) -> None:
        self._bytes += group.bytes - before
        if self._bytes > self._memory:
            self._shrink()

    def _shrink(self) -> None:
        while self._bytes > self._memory and self._idle:
            self._bytes -= self._idle.pop(next(iter(self._idle))).bytes
        while self._bytes > self._memory:
            group = min((group for group in self._active.values() if group.finished), key=lambda group: group.finished[0], default=None)
            if group is None:
                return
            before = group.bytes
            group.drop_oldest()
            self._bytes += group.bytes - before


def _packed(tokens: "array[int]") -> str:
    return b64encode(zlib.compress(tokens.tobytes(), 1)).decode()


def _unpacked(text: str) -> "array[int]":
    return _of_bytes(zlib.decompress(b64decode(text)))


def _of_bytes(content: bytes) -> "array[int]":
    tokens = array("i")
    tokens.frombytes(content)
    return tokens


def _vote(voters: list[list[int]], limit: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """``voters``: the ``limit`` tokens that followed at each place, newest first; NOWHERE after the end of a text."""
    tokens: list[int] = []
    confidence: list[float] = []
    for position in range(limit):
        votes = [voter[position] for voter in voters if voter[position] != NOWHERE]
        if not votes:
            break
        chosen = votes[0]
        if votes.count(chosen) < len(voters):
            chosen = max(votes, key=votes.count)  # on a tie the first, which is the newest
            voters = [voter for voter in voters if voter[position] == chosen]
        tokens.append(chosen)
        confidence.append(votes.count(chosen) / (len(votes) + 1))
    return tuple(tokens), tuple(confidence)
