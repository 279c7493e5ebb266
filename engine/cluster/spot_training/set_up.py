"""How long a session trains until it is worth anything, and so how long a tail must be predicted to last. Pure."""

from collections.abc import Collection

WORTH = 2.0
"""Set-ups that a tail must be predicted to last for: then at least half of it is spent on training."""
PATIENCE = 0.7
"""Of a set-up after a rollout in which nobody trained though it was wanted: one slow set-up must not end training."""


def expected_set_up(expected: float, measured: Collection[float], vain: float, untried: bool) -> float:
    """Seconds; ``measured`` are those of a rollout's sessions. Without any, a tail may have been over after ``vain`` seconds of training,
    which had brought nothing yet; or training was wanted and ``untried``."""
    if measured:
        return max(measured)
    return PATIENCE * expected if untried else max(expected, vain)
