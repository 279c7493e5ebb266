"""All workers' decoding in one rollout, from one request's finish to the next.

Time runs in tokens first: on a worker all running requests gain equally many, so that who ends when is settled by lengths and slots.
Between two ends the batch is the same, and its steps are equal but for the growing cache: their seconds are a product.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Pace:
    """Seconds in which each running request gains a token: ``fixed[b] + slope[b] * n`` for b requests of n known tokens on average.
    ``prefill`` seconds a token of a new prompt; ``switching[b]`` seconds once, when the batch falls to b. All [slots + 1]."""

    fixed: Array
    slope: Array
    prefill: float
    switching: Array

    @property
    def slots(self) -> int:
        return len(self.fixed) - 1


@dataclass(frozen=True)
class Decoded:
    """``starts`` and ``ends`` [W, R] of each request in tokens of its worker's time; ``marks`` and ``clock`` [W, R]: these ends in order,
    and the seconds at which they are; ``running`` [W, R]: requests before each of them."""

    starts: Array
    ends: Array
    marks: Array
    clock: Array
    running: NDArray[np.int64]

    @property
    def done(self) -> Array:
        """Seconds [W] after which each worker is done."""
        return self.clock[:, -1]

    @property
    def seconds(self) -> Array:
        """When each request ends [W, R]."""
        found = np.empty_like(self.clock)
        np.put_along_axis(found, np.argsort(self.ends, axis=1, kind="stable"), self.clock, axis=1)
        return found

    def generated(self, moment: float) -> Array:
        """Tokens [W, R] of each request ``moment`` seconds after the start."""
        at = np.array([np.interp(moment, [0.0, *clock], [0.0, *marks]) for clock, marks in zip(self.clock, self.marks, strict=True)])
        found: Array = np.clip(np.minimum(at[:, None], self.ends) - self.starts, 0, None)
        return found


def decode(lengths: NDArray[np.int64], known: NDArray[np.int64], pace: Pace, fresh: float = 1.0) -> Decoded:
    """``lengths`` [W, R] in the order of each worker's queue, filled up with zeros in front; ``known`` [W, R]: tokens of each before it
    is generated. ``fresh``: share of prompts that are read, the others copy a sibling's."""
    starts = _starts(lengths, pace.slots)
    ends = starts + lengths
    order = np.argsort(ends, axis=1, kind="stable")
    marks = np.take_along_axis(ends, order, 1)
    count = (lengths > 0).sum(1, keepdims=True)
    place = np.arange(lengths.shape[1]) - (lengths.shape[1] - count)
    running = np.where(place >= 0, np.clip(count - place, 0, pace.slots), 0)
    span = np.diff(marks, axis=1, prepend=0.0)
    newest = np.clip(lengths.shape[1] - count + np.minimum(count, place + pace.slots) - 1, 0, None)
    mean = _mean_known(lengths, known, order, running, span, newest)
    seconds = span * (pace.fixed[running] + pace.slope[running] * mean)
    fell = np.diff(running, axis=1, prepend=running[:, :1]) < 0  # who drafts from the start has nothing to catch up with
    seconds += np.where(fell & (place >= 0), pace.switching[running], 0.0)
    return Decoded(starts, ends, marks, np.cumsum(seconds + _prefill(lengths, known, place, count, pace, fresh), axis=1), running)


def _starts(lengths: NDArray[np.int64], slots: int) -> Array:
    """First come, first served, in the slot that is free first, as ``engine.rollout.native.scheduler`` admits."""
    workers, requests = lengths.shape
    if requests <= slots:
        return np.zeros(lengths.shape)
    free, starts, every = np.zeros((workers, slots)), np.zeros(lengths.shape), np.arange(workers)
    for request in range(requests):
        slot = free.argmin(1)
        starts[:, request] = free[every, slot]
        free[every, slot] += lengths[:, request]
    return starts


def _mean_known(
    lengths: NDArray[np.int64],
    known: NDArray[np.int64],
    order: NDArray[np.int64],
    running: NDArray[np.int64],
    span: Array,
    newest: NDArray[np.int64],
) -> Array:
    """Tokens [W, R] that a running request has on average in the middle of each span; ``newest`` [W, R]: the last that has begun."""
    queued = np.where(lengths > 0, known, 0)
    entered = np.take_along_axis(np.cumsum(queued, axis=1), newest, 1)
    left = np.cumsum(np.take_along_axis(queued + lengths, order, 1), axis=1)
    before = np.concatenate([np.zeros((len(left), 1)), left[:, :-1]], axis=1)
    gained = np.cumsum(span * running, axis=1) - span * running / 2
    mean: Array = np.where(running > 0, np.maximum(entered - before + gained, 0) / np.maximum(running, 1), 0.0)
    return mean


def _prefill(
    lengths: NDArray[np.int64], known: NDArray[np.int64], place: NDArray[np.int64], count: NDArray[np.int64], pace: Pace, fresh: float
) -> Array:
    """Seconds [W, R] that reading prompts takes before each end: those of all first slots at once, then of one with each end."""
    mean = np.where(lengths > 0, known, 0).sum(1, keepdims=True) / np.maximum(count, 1) * fresh * pace.prefill
    first = np.minimum(count, pace.slots)
    read: Array = np.where(place == 0, first, ((place > 0) & (place + pace.slots <= count)).astype(int)) * mean
    return read
