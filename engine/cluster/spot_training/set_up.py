"""How long a session trains until it is worth anything, and so how long a tail must be predicted to last. Pure."""

from collections.abc import Collection

WORTH = 2.0
"""Set-ups that a tail must be predicted to last for: then at least half of it is spent on training."""
PATIENCE = 0.9
"""Of a set-up after a rollout whose tail was too short for it."""


def expected_set_up(expected: float, measured: Collection[float], trained: float, wanted: bool) -> float:
    """Seconds; ``measured`` are those of this rollout's sessions. Without any, somebody ``trained`` so many seconds in vain, or nobody
    did. One slow set-up must not keep all later tails from being used, where training is ``wanted``."""
    if measured:
        return max(measured)
    if trained:
        return max(expected, trained)
    return PATIENCE * expected if wanted else expected
