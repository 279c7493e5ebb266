"""The model-free drafter: a request goes on as siblings of its prompt did after the same tokens."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from engine.speculation.trie import LONGEST, OFFSET_BITS, OFFSET_MASK, ContextTrie

SHORTEST = 3  # tokens that must match
_GROUP_BYTES, _TEXT_BYTES, _TOKEN_BYTES = 2500, 450, 5  # upper estimates


@dataclass(frozen=True, slots=True)
class Draft:
    """A chain of drafted ``tokens``, from places where the last ``match`` tokens of the request occurred before.

    ``confidence`` of a token is votes / (voters + 1): its share of the votes, shrunk the more the fewer there are.
    """

    tokens: tuple[int, ...] = ()
    match: int = 0
    confidence: tuple[float, ...] = ()

    def first(self, length: int) -> "Draft":
        """The draft without the tokens after the first ``length``."""
        return Draft(self.tokens[:length], self.match, self.confidence[:length])


class _Group:
    """The texts of one prompt, by number. A request's text starts with the end of the prompt, which is indexed only once.

    ``begin``, ``extend`` and ``drop_oldest`` return by how much ``bytes`` grew.
    """

    def __init__(self, prompt: "array[int]", number: int) -> None:
        self.key = prompt.tobytes()
        self.texts = {number: array("i")}
        self.trie = ContextTrie(self.texts)
        self.end_of_prompt = prompt[-LONGEST:]
        self.running: set[int] = set()
        self.finished: list[int] = []  # in order of their ends
        self.bytes = _GROUP_BYTES + len(self.key) + _TEXT_BYTES + self.trie.bytes
        self.extend(number, prompt)

    def begin(self, number: int) -> int:
        self.texts[number] = self.end_of_prompt[:]
        self.running.add(number)
        return self._grow(_TEXT_BYTES)

    def extend(self, number: int, tokens: Sequence[int]) -> int:
        text, trie = self.texts[number], self.trie
        index, place = trie.bytes, number << OFFSET_BITS | len(text)
        for token in tokens:
            trie.add(place)
            text.append(token)
            place += 1
        return self._grow(len(tokens) * _TOKEN_BYTES + trie.bytes - index)

    def end(self, number: int) -> None:
        self.running.remove(number)
        self.finished.append(number)

    def drop_oldest(self) -> int:
        number, index = self.finished.pop(0), self.trie.bytes
        generated = range(len(self.end_of_prompt), len(self.texts[number]))
        for offset in generated:
            self.trie.discard(number << OFFSET_BITS | offset)
        del self.texts[number]
        return self._grow(self.trie.bytes - index - len(generated) * _TOKEN_BYTES - _TEXT_BYTES)

    def _grow(self, change: int) -> int:
        self.bytes += change
        return change

    def draft(self, number: int, limit: int) -> Draft:
        match, places = self.trie.longest(self.texts[number][-LONGEST:])
        if match < SHORTEST:
            return Draft()
        starts = [(self.texts[place >> OFFSET_BITS], place & OFFSET_MASK) for place in reversed(places)]
        tokens, confidence = _vote([text[start : start + limit] for text, start in starts], limit)
        return Draft(tokens, match, confidence) if tokens else Draft()


class SuffixStore:
    """What was written to each prompt, by running requests and by finished ones, also of earlier steps.

    Beyond ``memory_bytes`` prompts without a running request go, least recently used first, then the finished texts of the
    others, oldest first. Running requests stay, even if they alone exceed it. A token takes about 100 bytes with its index.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory = memory_bytes
        self._numbers = count()
        self._active: dict[bytes, _Group] = {}
        self._idle: dict[bytes, _Group] = {}  # least recently used first
        self._requests: dict[int, tuple[_Group, int]] = {}
        self._bytes = 0

    @property
    def empty(self) -> bool:
        return not self._active and not self._idle

    @property
    def bytes(self) -> int:
        """Memory in use, index included."""
        return self._bytes

    def begin(self, request: int, prompt: Sequence[int]) -> None:
        """ValueError if a request of this number is running."""
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
        self._bytes += group.begin(number)
        self._shrink()

    def extend(self, request: int, tokens: Sequence[int]) -> None:
        """``tokens`` were generated."""
        group, number = self._requests[request]
        self._bytes += group.extend(number, tokens)
        if self._bytes > self._memory:
            self._shrink()

    def end(self, request: int) -> None:
        """Finished; what it wrote stays."""
        group, number = self._requests.pop(request)
        group.end(number)
        self._shrink()
        if not group.running:
            self._idle[group.key] = self._active.pop(group.key)
            self._shrink()

    def draft(self, request: int, limit: int) -> Draft:
        """At most ``limit`` tokens that may follow the known text of ``request``; none if its last tokens are new.

        The newest places where the longest match occurred vote on the first token, those that were right on the second, and so on;
        on a tie the newest decides.
        """
        group, number = self._requests[request]
        return group.draft(number, limit)

    def _shrink(self) -> None:
        while self._bytes > self._memory and self._idle:
            self._bytes -= self._idle.pop(next(iter(self._idle))).bytes
        while self._bytes > self._memory:
            group = min((group for group in self._active.values() if group.finished), key=lambda group: group.finished[0], default=None)
            if group is None:
                return
            self._bytes += group.drop_oldest()


def _vote(voters: "list[array[int]]", limit: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """``voters``: what followed at each place, newest first."""
    tokens: list[int] = []
    confidence: list[float] = []
    for position in range(limit):
        votes = [voter[position] for voter in voters if position < len(voter)]
        if not votes:
            break
        chosen = votes[0]
        if votes.count(chosen) < len(votes):
            chosen = max(votes, key=votes.count)  # on a tie the first, which is the newest
            voters = [voter for voter in voters if position < len(voter) and voter[position] == chosen]
        tokens.append(chosen)
        confidence.append(votes.count(chosen) / (len(votes) + 1))
    return tuple(tokens), tuple(confidence)
