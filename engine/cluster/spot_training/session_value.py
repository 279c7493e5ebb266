"""What training the drafter in a tail saves in later steps, and what it costs in this one, in seconds. Pure.

A session's gain on held-out responses says how many more tokens a draft brings from then on, so that every later step saves at most that
share of its decoding: as if all of it were drafted, since a drafter that is not used yet may be soon. It costs what it slows those by who
still generate, the wait for its last micro-step, and judging and publishing.
"""

from collections.abc import Collection, Mapping
from typing import Any

from engine.speculation.counterfactual import DecodeSeconds
from engine.speculation.step_pace import Paces, added, slowdown

ASSUMED_GAIN = 0.02
"""Share of tokens that a session adds to a draft, assumed of one before any was measured."""
ASSUMED_SLOWDOWN = 1.1
"""Of workers on CPUs, until it is measured: cores share their memory, and with two of them it was 1.0 to 1.15."""
MEMORY = 10
"""Sessions after which an older one counts less."""
FORGETTING = 0.9
"""Weight of a rollout's decode steps one rollout later: a machine's speed changes."""
LOOK_EVERY = 5
"""Steps of which one is not trained in, while nobody knows how much training slows others."""


class SessionValue:
    """Running means of what was measured up to now: ``gain``, the share of tokens that a session adds to a draft, and ``cost``, seconds.
    ``slowdown``: how many times as long decode steps take beside training, the last that was measured; None: not yet, and ``assumed``."""

    def __init__(self, assumed: float = 1.0) -> None:
        self.gain, self.cost, self.sessions = ASSUMED_GAIN, 0.0, 0
        self.slowdown: float | None = None
        self._assumed = assumed
        self._decoding: float | None = None
        self._paces: Paces = {}
        self._slowed = 0.0

    def saving(self, left: int) -> float | None:
        """Seconds that a session should save in the ``left`` steps behind it, at most; None where nobody knows what a step costs."""
        return None if self._decoding is None else self.gain / (1 + self.gain) * self._decoding * left

    def pays(self, left: int) -> bool:
        """Whether that is no less than what it is expected to cost, as far as both are known."""
        saving = self.saving(left)
        return saving is None or saving >= self.cost

    def looks(self, step: int) -> bool:
        """Whether workers shall wait in ``step``'s tail, so that others' steps are timed beside them: those that train leave none."""
        unknown = self.slowdown is None and self._decoding is not None
        return unknown and self.sessions > 1 and step % LOOK_EVERY == LOOK_EVERY - 1

    def rolled_out(self, workers: Collection[DecodeSeconds], paces: Paces, training: float, waited: float = 0.0) -> None:
        """In a rollout the ``workers`` decoded; beside ``training`` seconds of it others trained, for whom all ``waited`` after it. Of
        rollouts of different lengths, as a step's own and its refills, the longest counts."""
        longest = max((worker.spent for worker in workers), default=None)
        if longest is not None:  # as it is of a rollout that nobody watched
            self._decoding = max(longest, FORGETTING * (self._decoding or 0.0))
        self._paces = added(self._paces, paces, FORGETTING)
        if (seen := slowdown(self._paces)) is not None:
            self.slowdown = max(1.0, seen)
        self._slowed += training * (1 - 1 / (self.slowdown or self._assumed)) + (waited if training else 0.0)

    def trained(self, gain: float, publishing: float) -> float:
        """The sessions since the last call brought ``gain``, and ``publishing`` took so many seconds; what they cost in all."""
        cost, self._slowed = self._slowed + publishing, 0.0
        self.sessions = min(self.sessions + 1, MEMORY)
        self.gain += (max(gain, 0.0) - self.gain) / (self.sessions + 1)
        self.cost += (cost - self.cost) / self.sessions
        return cost

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        known = {"gain": self.gain, "cost": self.cost, "sessions": self.sessions, "slowdown": self.slowdown}
        return known | {"decoding": self._decoding, "slowed": self._slowed}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.gain, self.cost, self.sessions = state["gain"], state["cost"], state["sessions"]
        self._decoding, self.slowdown, self._slowed = state["decoding"], state.get("slowdown"), state.get("slowed", 0.0)
