"""DataBuffer (TLT section 3): tokens and hidden states of responses, in host memory, kept across RL steps."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import takewhile

import torch
from torch import Tensor

from engine.rollout.interface import Completion

HELD_OUT_EVERY = 8
UNKNOWN = -1
LONGEST, LEAST_BYTES = 8, 256 * 2**20
"""Of a buffer whose size nobody set: how many of the longest responses it holds, and its size at least."""
MEMORY_SHARE = 8
CONTEXT = 1024
"""Tokens of a prompt that count, at most: training leaves out windows with nothing of the response (see ``packing.cut``)."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One response: ``tokens`` [T] (prompt and response), the ``prompt`` length in tokens, ``features`` [T - 1, W] in bfloat16, for W see
    ``feature_width``; the last token has none: the target need not have seen it. All entries of one prompt have one ``group``."""

    id: int
    group: int
    step: int
    tokens: Tensor
    prompt: int
    features: Tensor

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

    def end(self, limit: int) -> "Entry":
        """As many of its last tokens as take ``limit`` bytes, but 3 at least; no copy if that is all of it."""
        start = len(self.tokens) - max(3, limit // bytes_per_token(self.features.shape[1]))
        if start <= 0:
            return self
        return replace(self, tokens=self.tokens[start:].clone(), prompt=max(0, self.prompt - start), features=self.features[start:].clone())


class DataBuffer:
    """Entries in order of arrival; the oldest are dropped once they take more than ``limit`` bytes. Of one that takes more than half of
    that, the end is kept; ``shortened`` tells of the first one, with its tokens before and after."""

    def __init__(self, limit: int, least_tokens: int = 0) -> None:
        """``least_tokens``: see ``mix``."""
        self.limit = limit
        self.least_tokens = least_tokens
        self.bytes = 0
        self.shortened: tuple[int, int] | None = None
        self._entries: deque[Entry] = deque()
        self._next = 0
        self._first = UNKNOWN

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> int:
        """The id of the oldest entry; of the next one if there is none."""
        return self._entries[0].id if self._entries else self._next

    def add(self, step: int, tokens: Sequence[int], prompt: int, features: Tensor) -> None:
        """Keeps one response of RL step ``step``; steps must not fall. ``features`` is [T - 1, W] for T tokens, and a copy of it is kept
        unless it is bf16 in host memory: then it is the buffer's from now on, and should share its memory with nothing.

        A response of one token is left out: serving would never draft any of it.
        """
        if len(features) != len(tokens) - 1:
            raise ValueError(f"{len(tokens)} tokens but {len(features)} features")
        if len(tokens) - prompt < 2:
            return
        kept, ids = features.detach().to("cpu", torch.bfloat16), torch.tensor(tokens, dtype=torch.int64)
        self._append(Entry(self._next, self._group(ids[:prompt]), step, ids, prompt, kept))

    def _group(self, prompt: Tensor) -> int:
        """``group_of`` the prompt, but where nothing is held out, the next new one is: without any, no training could be judged."""
        group = group_of(prompt)
        known = {entry.group for entry in self._entries}
        if group not in known and all(each % HELD_OUT_EVERY for each in known):
            self._first = group
        return group - group % HELD_OUT_EVERY if group == self._first else group

    def remember(self, step: int, completions: Sequence[Completion], features: Mapping[int, Tensor]) -> None:
        """Adds responses with their ``features``, by request id."""
        for completion in completions:
            request = completion.request
            self.add(step, (*request.prompt, *completion.tokens), len(request.prompt), features[request.id])

    def _append(self, entry: Entry) -> None:
        self._next = entry.id + 1
        kept = entry.end(self.limit // 2)
        if kept is not entry and self.shortened is None:
            self.shortened = len(entry.tokens), len(kept.tokens)
        self._entries.append(kept)
        self.bytes += kept.bytes
        while self.bytes > self.limit:
            self.bytes -= self._entries.popleft().bytes

    def mix(self) -> list[Entry]:
        """One-step-offset sampling: the newest step's entries, and those of the step before that are longer than all of them.

        While a step is only partly here its responses are the short ones, and the long ones of the step before complete the
        distribution of lengths; once it is whole, hardly any are taken. If fewer than ``least_tokens`` are read of these, the youngest
        others follow until so many are: on a few responses alone, passed again and again, the drafter would overfit.
        """
        steps = sorted({entry.step for entry in self._entries})[-2:]
        newest = [entry for entry in self._entries if entry.step in steps[-1:]]
        longest = max((entry.response for entry in newest), default=0)
        before = [entry for entry in self._entries if entry.step in steps[:-1] and entry.response > longest]
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
        return length_distance([entry.response for entry in self.mix()], [entry.response for entry in self._entries if entry.step in whole])

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
        self.bytes = 0
        self._first = counters.get("first_group", UNKNOWN)
        for entry in entries:
            if entry.id >= counters["oldest"]:
                # Checkpoints of earlier versions numbered the groups.
                known = "first_group" in counters
                self._append(entry if known else replace(entry, group=self._group(entry.tokens[: entry.prompt])))
        self._next = counters["next"]


def bytes_per_token(width: int) -> int:
    """That the buffer takes, with features of ``width`` numbers."""
    return torch.int64.itemsize + width * torch.bfloat16.itemsize


def enough_bytes(tokens: int, width: int, memory: int) -> int:
    """For responses of up to ``tokens`` tokens with their prompts, and features of ``width`` numbers; no more than a part of ``memory``
    bytes, which the workers of a host share."""
    return max(LEAST_BYTES, min(LONGEST * tokens * bytes_per_token(width), memory // MEMORY_SHARE))


def group_of(prompt: Tensor) -> int:
    """A number that follows from the tokens [P] of a prompt alone."""
    return int.from_bytes(blake2b(prompt.numpy().tobytes(), digest_size=7).digest())


def length_distance(one: Iterable[int], other: Iterable[int]) -> float:
    """Total variation, in [0, 1], between two samples of lengths (each at least 1) in bins of powers of two; 0 if there are none."""
    first, second = (Counter(length.bit_length() for length in lengths) for lengths in (one, other))
    if not first or not second:
        return float(bool(first or second))
    return sum(abs(first[size] / first.total() - second[size] / second.total()) for size in first | second) / 2
