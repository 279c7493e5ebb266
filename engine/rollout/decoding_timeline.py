"""How many requests ran, and with which strategy, over the time of a rollout."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

MOST = 64


class Moment(NamedTuple):
    """From ``time`` (seconds since the epoch) on ``running`` requests were decoded, each step with ``strategy``."""

    time: float
    running: int
    strategy: str


class DecodingTimeline:
    """The moments since the last ``take`` at which something changed."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._moments: list[Moment] = []

    def add(self, running: int, strategy: str) -> None:
        """A decode step begins; with nothing running, a rollout is over."""
        if not running or not self._moments or self._moments[-1][1:] != (running, strategy):
            self._moments.append(Moment(self._clock(), running, strategy))

    def take(self) -> list[Moment]:
        """MOST of them at most, see ``thinned``; starts a new timeline."""
        taken, self._moments = self._moments, []
        return thinned(taken)

    def take_so_far(self) -> list[Moment]:
        """As ``take``, perhaps in the middle of a rollout: what runs then ends here, and is where the new timeline starts."""
        running = [moment._replace(time=self._clock()) for moment in self._moments[-1:] if moment.running]
        self._moments += [moment._replace(running=0) for moment in running]
        taken = self.take()
        self._moments = running
        return taken


def thinned(moments: Sequence[Moment], most: int = MOST) -> list[Moment]:
    """At most ``most`` of them. Where there are more, each but the last stands for an equal span of time: for what ran at its beginning,
    with the strategy that was used longest in it."""
    if len(moments) <= most:
        return list(moments)
    first, last = moments[0].time, moments[-1].time
    width = (last - first) / (most - 1) or 1.0
    found = []
    for _, group in groupby(pairwise(moments), lambda pair: min(int((pair[0].time - first) / width), most - 2)):
        pairs = list(group)
        used: dict[str, float] = defaultdict(float)
        for now, then in pairs:
            used[now.strategy] += then.time - now.time
        found.append(pairs[0][0]._replace(strategy=max(used, key=lambda name: used[name])))
    return [*found, moments[-1]]
