"""When speculation rests: a run that it does nothing for shall not pay for watching. Pure.

Watching and remembering take a few percent of a short rollout. Responses of one short length leave nothing to win whatever the drafter;
since they may grow longer, speculation looks again now and then.
"""

from dataclasses import dataclass

PATIENCE = 2
"""Rollouts in a row that must have brought nothing."""
LEAST_DRAFTED_SHARE = 0.02
"""Share of a rollout's tokens that came by drafts, below which they brought nothing."""


@dataclass(frozen=True)
class Cooldown:
    """``fruitless`` rollouts in a row were watched; no step before ``until`` is."""

    fruitless: int = 0
    until: int = 0

    @property
    def looks(self) -> bool:
        """Whether a step that is watched is a look between rests."""
        return self.fruitless >= PATIENCE

    def at(self, step: int) -> bool:
        return step < self.until

    def tells(self, step: int, overlapping: bool) -> bool:
        """Whether what was counted in ``step`` says what drafts bring: that is all watched. ``overlapping``: what the workers generated
        beside the update before is counted, too."""
        return not self.at(step) and not (overlapping and self.at(step - 1))


def watched(cooldown: Cooldown, step: int, share: float | None, trained: bool, steps: int) -> Cooldown:
    """In RL step ``step`` drafts brought ``share`` of the tokens; ``trained``: the drafter learnt in its tail, so that there is hope.

    A rest lasts ``steps`` steps. None: there were no tokens, as where a step's were generated beside the one before; that says nothing.
    """
    if share is None and not trained:
        return cooldown
    fruitless = 0 if trained or share is None or share >= LEAST_DRAFTED_SHARE else cooldown.fruitless + 1
    return Cooldown(fruitless, step + 1 + steps if fruitless >= PATIENCE else 0)
