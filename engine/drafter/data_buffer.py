"""DataBuffer (TLT section 3): tokens and hidden states of responses, in host memory, kept across RL steps."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import takewhile
from typing import NamedTuple

import torch
from torch import Tensor

HELD_OUT_EVERY = 8
UNKNOWN = -1
LONGEST, LEAST_BYTES = 8, 256 * 2**20
"""Of a buffer whose size nobody set: how many of the longest responses it holds, and its size at least."""
MEMORY_SHARE = 8
CONTEXT = 1024
"""Tokens of a prompt that count, at most: training leaves out windows with nothing of the response (see ``packing.cut``)."""
WINDOW, LEAST_WINDOW, SPREAD = 4096, 64, 3
"""Tokens of a window of a response that is kept in parts, as training sees so many before each; but rather ``SPREAD`` shorter ones,
beginning, middle and end, than fewer."""


class Lost(NamedTuple):
    """Responses, and tokens of them, that were dropped before anything could be trained on them."""

    responses: int = 0
    tokens: int = 0


class Window(NamedTuple):
    """Which part of a prompt and response that is: its ``number`` among those kept, the position of its ``first`` token, and how many
    tokens the whole ``response`` has."""

    number: int
    first: int
    response: int


@dataclass(frozen=True, eq=False)
class Entry:
    """One response, or a ``window`` of a long one: ``tokens`` [T] (prompt and response), the ``prompt`` length in tokens, ``features``
    [T - 1, W] in bfloat16, for W see ``feature_width``; the last token has none: the target need not have seen it. All entries of one
    prompt have one ``group``."""

    id: int
    group: int
    step: int
    tokens: Tensor
    prompt: int
    features: Tensor
    window: Window | None = None

    @property
    def first(self) -> int:
        """The position of the first token."""
        return self.window.first if self.window else 0

    @property
    def written(self) -> int:
        """Tokens of the whole response."""
        return self.window.response if self.window else self.response

    @property
    def positions(self) -> int:
        """Positions t that have an input (x[t+1], h[t]) and a token x[t+2] to predict."""
        return len(self.tokens) - 2

    @property
    def response(self) -> int:
        return len(self.tokens) - self.prompt

    @property
    def read(self) -> int:
        """Tokens that training reads of it, about."""
        return self.response + min(self.prompt, CONTEXT)

    @property
    def held_out(self) -> bool:
        """The entries of one prompt in eight are never trained on: siblings are too alike to be divided, and so is what is written to a
        prompt that comes again, later or on another worker."""
        return self.group % HELD_OUT_EVERY == 0

    @property
    def bytes(self) -> int:
        return self.tokens.nbytes + self.features.nbytes

    def without_memory(self) -> "Entry":
        """The same with features of no values, which count as many bytes and take none."""
        return replace(self, features=self.features.new_zeros(()).expand(self.features.shape))

    def windows(self, limit: int, most: int | None = None) -> list["Entry"]:
        """Itself if it takes at most ``limit`` bytes. Else windows that do together, but have 3 tokens at least, with ids from its own on:
        ``most`` of them, from the beginning of the response to its end, with something of it in each; a single one is the end, as it is
        where that has all of the response."""
        room = max(3, limit // bytes_per_token(self.features.shape[1]))
        total = len(self.tokens)
        if total <= room:
            return [self]
        count = most or max(1, min(room // LEAST_WINDOW, max(SPREAD, room // WINDOW)))
        size = room // count
        first = max(0, self.prompt - size // 2)
        if count == 1 or first >= total - room:
            return [self._window(0, total - room, total)]
        starts = [first + (total - size - first) * number // (count - 1) for number in range(count)]
        return [self._window(number, start, start + size) for number, start in enumerate(starts)]

    def _window(self, number: int, start: int, stop: int) -> "Entry":
        return replace(
            self,
            id=self.id + number,
            tokens=self.tokens[start:stop].clone(),
            prompt=max(0, self.prompt - start),
            features=self.features[start : stop - 1].clone(),
            window=Window(self.window.number if self.window else number, self.first + start, self.written),
        )


class DataBuffer:
    """Entries in order of arrival; the oldest are dropped once they take more than ``limit`` bytes. Of one that takes more than half of
    that, windows spread over it are kept; ``shortened`` tells of the first one, with its tokens before and after."""

    def __init__(self, limit: int, least_tokens: int = 0) -> None:
        """``least_tokens``: see ``mix``."""
        self.limit = limit
        self.least_tokens = least_tokens
        self.bytes = 0
        self.shortened: tuple[int, int] | None = None
        self._lost = Lost()
        self._entries: deque[Entry] = deque()
        self._groups = Counter[int]()
        self._held_out = 0
        self._next = 0
        self._first = UNKNOWN

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> int:
        """The id of the oldest entry; of the next one if there is none."""
        return self._entries[0].id if self._entries else self._next

    def add(self, step: int, tokens: Sequence[int], prompt: int, features: Tensor) -> None:
        """Keeps one response of RL step ``step``; steps must not fall. ``features``: see ``entries_of``."""
        self.remember(step, [entries_of(tokens, prompt, features, self.limit)])

    def remember(self, step: int, responses: Iterable[Sequence[Entry]]) -> None:
        """Keeps ``responses`` of RL step ``step``, one after the other, of which ``entries_of`` has made entries."""
        for entries in responses:
            if entries and entries[0].window and self.shortened is None:
                self.shortened = entries[-1].first + len(entries[-1].tokens), sum(len(window.tokens) for window in entries)
            first, group = self._next, self._group(entries[0].group) if entries else UNKNOWN
            for entry in entries:
                self._append(replace(entry, id=first + entry.id, group=group, step=step))

    def make_room(self, size: int) -> None:
        """The oldest entries, which are dropped once ``size`` bytes more are remembered, take no memory from now on. They are there until
        then, as it goes by all that there are what is held out: so nobody may train before."""
        left = self.bytes + size
        for place, entry in enumerate(self._entries):
            if left <= self.limit:
                break
            left -= entry.bytes
            self._entries[place] = entry.without_memory()

    def _group(self, group: int) -> int:
        """``group``, but where nothing is held out, the next new one is: without any, no training could be judged."""
        if not self._held_out and group not in self._groups:
            self._first = group
        return group - group % HELD_OUT_EVERY if group == self._first else group

    def _append(self, entry: Entry) -> None:
        self._next = entry.id + 1
        self._entries.append(entry)
        self._groups[entry.group] += 1
        self._held_out += entry.held_out
        self.bytes += entry.bytes
        while self.bytes > self.limit:
            oldest = self._drop_oldest()
            if oldest.step == entry.step:
                whole = oldest.window is None or oldest.window.number == 0
                self._lost = Lost(self._lost.responses + whole, self._lost.tokens + oldest.response)

    def _drop_oldest(self) -> Entry:
        oldest = self._entries.popleft()
        self._groups[oldest.group] -= 1
        if not self._groups[oldest.group]:
            del self._groups[oldest.group]
        self._held_out -= oldest.held_out
        self.bytes -= oldest.bytes
        return oldest

    def take_lost(self) -> Lost:
        """Since the last call: what was dropped while others of its own step still came."""
        lost, self._lost = self._lost, Lost()
        return lost

    def mix(self) -> list[Entry]:
        """One-step-offset sampling: the newest step's entries, and those of the step before that are longer than all of them.

        While a step is only partly here its responses are the short ones, and the long ones of the step before complete the
        distribution of lengths; once it is whole, hardly any are taken. If fewer than ``least_tokens`` are read of these, the youngest
        others follow until so many are: on a few responses alone, passed again and again, the drafter would overfit.
        """
        steps = sorted({entry.step for entry in self._entries})[-2:]
        newest = [entry for entry in self._entries if entry.step in steps[-1:]]
        longest = max((entry.written for entry in newest), default=0)
        before = [entry for entry in self._entries if entry.step in steps[:-1] and entry.written > longest]
        chosen = {entry.id: entry for entry in (*newest, *before) if not entry.held_out}
        tokens = sum(entry.read for entry in chosen.values())
        for entry in reversed(self._entries):
            if tokens >= self.least_tokens:
                break
            if entry.id not in chosen and not entry.held_out:
                chosen[entry.id] = entry
                tokens += entry.read
        return list(chosen.values())

    def mix_distance(self) -> float:
        """``length_distance`` of ``mix`` to the newest step that is surely whole: the one before the newest, if there are two."""
        whole = sorted({entry.step for entry in self._entries})[-2:][:1]
        return length_distance(lengths(self.mix()), lengths(entry for entry in self._entries if entry.step in whole))

    def trainable(self) -> list[Entry]:
        """All entries that are not held out."""
        return [entry for entry in self._entries if not entry.held_out]

    def first_held_out(self, tokens: int) -> list[Entry]:
        """The oldest held-out entries, until ``tokens`` are read of them: the same ones as long as none is dropped."""
        found: list[Entry] = []
        for entry in self._entries:
            if tokens <= 0:
                break
            if entry.held_out:
                found.append(entry)
                tokens -= entry.read
        return found

    def held_out(self, tokens: int) -> list[Entry]:
        """The newest held-out entries, of which at most ``tokens`` are read, but at least one entry if there is any."""
        chosen: list[Entry] = []
        for entry in reversed(self._entries):
            if entry.held_out:
                if chosen and entry.read > tokens:
                    break
                chosen.append(entry)
                tokens -= entry.read
        return chosen

    def since(self, number: int) -> list[Entry]:
        """The entries with ids from ``number`` on."""
        return [*takewhile(lambda entry: entry.id >= number, reversed(self._entries))][::-1]

    def counters(self) -> dict[str, int]:
        """With the entries, all that ``restore`` needs."""
        return {"oldest": self.oldest, "next": self._next, "first_group": self._first}

    def restore(self, counters: Mapping[str, int], entries: Iterable[Entry]) -> None:
        """Replaces the content by ``entries`` (by rising id; those dropped before do not count); this buffer's own limit holds."""
        self._entries.clear()
        self._groups.clear()
        self.bytes = self._held_out = 0
        self._first = counters.get("first_group", UNKNOWN)
        for entry in entries:
            if entry.id >= counters["oldest"]:
                # Checkpoints of earlier versions numbered the groups.
                known = "first_group" in counters
                grouped = entry if known else replace(entry, group=self._group(group_of(entry.tokens[: entry.prompt])))
                self._append(*grouped.windows(self.limit // 2, most=1))
        self._next, self._lost = counters["next"], Lost()


def entries_of(tokens: Sequence[int], prompt: int, features: Tensor, limit: int) -> list[Entry]:
    """What a DataBuffer of ``limit`` bytes keeps of one response, for ``remember``. ``features`` is [T - 1, W] for T tokens, else it is a
    ValueError. A copy of it is kept unless it is bf16 in host memory: then it is the buffer's from now on, and should share its memory
    with nothing.

    Nothing of a response of one token: serving would never draft any of it; nor where not all features are finite, as of a policy whose
    update is left out: nothing could be trained with them.
    """
    if len(features) != len(tokens) - 1:
        raise ValueError(f"{len(tokens)} tokens but {len(features)} features")
    if len(tokens) - prompt < 2:
        return []
    kept, ids = features.detach().to("cpu", torch.bfloat16), torch.tensor(tokens, dtype=torch.int64)
    if not kept.isfinite().all():
        return []
    return Entry(0, group_of(ids[:prompt]), 0, ids, prompt, kept).windows(limit // 2)


def lengths(entries: Iterable[Entry]) -> list[int]:
    """Of the responses that the entries are, each once."""
    return [entry.written for entry in entries if entry.window is None or entry.window.number == 0]


def bytes_per_token(width: int) -> int:
    """That the buffer takes, with features of ``width`` numbers."""
    return torch.int64.itemsize + width * torch.bfloat16.itemsize


def enough_bytes(tokens: int, width: int, memory: int) -> int:
    """For responses of up to ``tokens`` tokens with their prompts, and features of ``width`` numbers; no more than a part of ``memory``
    bytes, which the workers of a host share."""
    return max(LEAST_BYTES, min(LONGEST * tokens * bytes_per_token(width), most_bytes(memory)))


def most_bytes(memory: int) -> int:
    """The part of ``memory`` bytes that a buffer takes at most, unless that is little."""
    return max(LEAST_BYTES, memory // MEMORY_SHARE)


def group_of(prompt: Tensor) -> int:
    """A number that follows from the tokens [P] of a prompt alone."""
    return int.from_bytes(blake2b(prompt.numpy().tobytes(), digest_size=7).digest())


def length_distance(one: Iterable[int], other: Iterable[int]) -> float:
    """Total variation, in [0, 1], between two samples of lengths (each at least 1) in bins of powers of two; 0 if there are none."""
    first, second = (Counter(length.bit_length() for length in lengths) for lengths in (one, other))
    if not first or not second:
        return float(bool(first or second))
    return sum(abs(first[size] / first.total() - second[size] / second.total()) for size in first | second) / 2
