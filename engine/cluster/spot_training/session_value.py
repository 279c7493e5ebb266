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
"""Of workers on CPUs, until it is measured: cores share their memory. Whole rollouts with training were 1.0 to 1.15 times as long there."""
MEMORY = 10
"""Sessions after which an older one counts less."""
FORGETTING, SLOW_FORGETTING = 0.9, 0.99
"""Weights of a rollout's decode steps one rollout later, as a machine's speed changes; the second one until they have said something."""
LASTS = 100
"""Later steps, at most, that a gain is counted for: by then, it is assumed, the target has moved on."""
LOOK_EVERY, LOOK_AGAIN = 5, 50
"""Steps of which one is not trained in, while nobody knows how much training slows others, and after that."""


class SessionValue:
    """Running means of what was measured up to now. Of a session: ``gain``, the share of tokens that it adds to a draft; ``beside``, the
    seconds of others' decoding beside it; ``rest``, those of the wait for it, judging and publishing. ``slowdown``: how many times as
    long decode steps take beside training, as measured last; None if that was never, and then it counts as ``assumed``."""

    def __init__(self, assumed: float = 1.0) -> None:
        self.gain, self.beside, self.rest, self.sessions = ASSUMED_GAIN, 0.0, 0.0, 0
        self.slowdown: float | None = None
        self._assumed = assumed
        self._decoding: float | None = None
        self._of_step: tuple[int | None, float] = None, 0.0
        self._paces: Paces = {}
        self._unsettled = 0.0, 0.0

    @property
    def cost(self) -> float:
        """Seconds that a session is expected to cost."""
        return self._seconds(self.beside, self.rest)

    def saving(self, left: int) -> float | None:
        """Seconds that a session should save in the ``left`` steps behind it, at most; None where nobody knows what a step costs."""
        return None if self._decoding is None else self.gain / (1 + self.gain) * self._decoding * min(left, LASTS)

    def pays(self, left: int) -> bool:
        """Whether that is no less than what it is expected to cost, as far as both are known."""
        saving = self.saving(left)
        return saving is None or saving >= self.cost

    def looks(self, step: int) -> bool:
        """Whether workers shall wait in ``step``'s tail, so that others' steps are timed beside them: those that train leave none."""
        every = LOOK_EVERY if self.slowdown is None else LOOK_AGAIN
        return self._decoding is not None and self.sessions > 1 and step % every == every - 1

    def rolled_out(self, step: int, workers: Collection[DecodeSeconds], paces: Paces, training: float, waited: float = 0.0) -> None:
        """In a rollout of ``step`` the ``workers`` decoded; beside ``training`` seconds of it others trained, for whom all ``waited`` after
        it. A step's own and its refills count together."""
        longest = max((worker.spent for worker in workers), default=None)
        if longest is not None:  # as it is of a rollout that nobody watched
            self._of_step = step, longest + (self._of_step[1] if step == self._of_step[0] else 0.0)
            self._decoding = max(self._of_step[1], FORGETTING * (self._decoding or 0.0))
        self._paces = added(self._paces, paces, SLOW_FORGETTING if self.slowdown is None else FORGETTING)
        if (seen := slowdown(self._paces)) is not None:
            self.slowdown = max(1.0, seen)
        if training:
            beside, rest = self._unsettled
            self._unsettled = beside + training, rest + waited

    def trained(self, gain: float, publishing: float) -> float:
        """The sessions since the last call brought ``gain``, and ``publishing`` took so many seconds; what they cost in all."""
        (beside, rest), self._unsettled = self._unsettled, (0.0, 0.0)
        rest += publishing
        self.sessions = min(self.sessions + 1, MEMORY)
        self.gain += (max(gain, 0.0) - self.gain) / (self.sessions + 1)
        self.beside += (beside - self.beside) / self.sessions
        self.rest += (rest - self.rest) / self.sessions
        return self._seconds(beside, rest)

    def _seconds(self, beside: float, rest: float) -> float:
        return beside * (1 - 1 / (self.slowdown or self._assumed)) + rest

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        known = {"gain": self.gain, "beside": self.beside, "rest": self.rest, "sessions": self.sessions, "slowdown": self.slowdown}
        return known | {"decoding": self._decoding, "unsettled": self._unsettled}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Checkpoints of earlier versions have only the ``cost`` of a session."""
        self.gain, self.beside, self.rest = state["gain"], state.get("beside", 0.0), state.get("rest", state.get("cost", 0.0))
        self.sessions, self.slowdown, self._decoding = state["sessions"], state.get("slowdown"), state["decoding"]
        beside, rest = state.get("unsettled", (0.0, 0.0))
        self._unsettled = beside, rest
