"""The drafter that a run makes from nothing: whether it does, and whether that one leaves tokens out. Needs no torch."""

from engine.config import RunConfig
from engine.drafter.kind import has_built_in

WORTH_IT = 2
"""Times that the whole vocabulary must be larger."""


def makes_one(config: RunConfig) -> bool:
    """Whether a drafter is to be pretrained that starts from nothing; with ``auto`` it is unless one is found."""
    path = config.drafter.path
    none = path is None or (path in ("builtin", "auto") and not has_built_in(config.model.path, config.drafter.recipe))
    return none and config.drafter.pretrain_minutes > 0


def leaves_out(size: int, whole: int) -> bool:
    """Whether a drafter that may draft from ``size`` tokens, 0 being all, gets fewer than the ``whole`` vocabulary: only if it is worth
    it."""
    return 0 < WORTH_IT * size <= whole
