"""What training the drafter in a tail saves in later steps, and what it costs in this one, in seconds. Pure.

A session's gain on held-out responses says how many more tokens a draft brings from then on, so that every later step saves that share of
the time in which the learned drafter drafts. It costs what it slows those by who still generate, and judging and publishing.
"""

from collections.abc import Collection, Mapping
from typing import Any

from engine.speculation.counterfactual import DecodeSeconds
from engine.speculation.step_pace import Paces, added, slowdown

ASSUMED_GAIN = 0.02
"""Share of tokens that a session adds to a draft, assumed of one before any was measured."""
MEMORY = 10
"""Sessions after which an older one counts less."""
FORGETTING = 0.9
"""Weight of a rollout's decode steps one rollout later: a machine's speed changes."""


class SessionValue:
    """Running means of what was measured up to now: ``gain``, the share of tokens that a session adds to a draft, and ``cost``, seconds.
    ``slowdown``: how many times as long decode steps take beside training."""

    def __init__(self) -> None:
        self.gain, self.cost, self.sessions = ASSUMED_GAIN, 0.0, 0
        self.slowdown = 1.0
        self._drafting: float | None = None
        self._paces: Paces = {}
        self._slowed = 0.0

    def saving(self, left: int) -> float | None:
        """Seconds that a session is expected to save in the ``left`` steps behind it; None where nobody knows what a step costs."""
        return None if self._drafting is None else self.gain / (1 + self.gain) * self._drafting * left

    def pays(self, left: int) -> bool:
        """Whether that is no less than what it is expected to cost, as far as both are known."""
        saving = self.saving(left)
        return saving is None or saving >= self.cost

    def rolled_out(self, workers: Collection[DecodeSeconds], paces: Paces, training: float) -> None:
        """In a rollout the ``workers`` decoded; beside ``training`` seconds of it others trained."""
        self._drafting = max(workers, key=lambda worker: worker.spent).learned if workers else None
        self._paces = added(self._paces, paces, FORGETTING)
        self.slowdown = max(1.0, slowdown(self._paces) or 1.0)
        self._slowed += training * (1 - 1 / self.slowdown)

    def trained(self, gain: float, publishing: float) -> float:
        """The sessions since the last call brought ``gain``, and ``publishing`` took so many seconds; what they cost in all."""
        cost, self._slowed = self._slowed + publishing, 0.0
        self.sessions = min(self.sessions + 1, MEMORY)
        self.gain += (max(gain, 0.0) - self.gain) / (self.sessions + 1)
        self.cost += (cost - self.cost) / self.sessions
        return cost

    def state(self) -> dict[str, Any]:
        """For a checkpoint; how much slower steps are is measured anew."""
        return {"gain": self.gain, "cost": self.cost, "sessions": self.sessions, "drafting": self._drafting}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.gain, self.cost, self.sessions = state["gain"], state["cost"], state["sessions"]
        self._drafting = state["drafting"]
