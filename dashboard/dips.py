"""What each update of the target takes from the drafter's accuracy, and what its training gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from backend.schemas.telemetry import DrafterSession

Measure = Literal["accepted drafts", "top-1", "top-3"]
FIELDS: Mapping[Measure, tuple[str, str]] = {
    "accepted drafts": ("held_out_before", "held_out_after"),
    "top-1": ("top1_before", "top1_after"),
    "top-3": ("top3_before", "top3_after"),
}
RECOVERED = 0.95


@dataclass(frozen=True)
class Accuracy:
    """Of the drafter before and after one session; ``kept`` is that of the one which the engines hold from then on."""

    session: DrafterSession
    before: float
    after: float

    @property
    def kept(self) -> float:
        return self.after if self.session.published else self.before


@dataclass(frozen=True)
class Dip:
    """``level`` is what the engines' drafter had after the session before, ``before`` what was left of it at the next one, under the
    updated target and on newer responses, and ``after`` what the engines' drafter has after that session."""

    step: int
    level: float
    before: float
    after: float

    @property
    def recovered(self) -> bool:
        """Whether one session brought ``RECOVERED`` of the level back."""
        return self.after >= RECOVERED * self.level


def accuracies(sessions: Sequence[DrafterSession], measure: Measure) -> list[Accuracy]:
    """Of the sessions that were measured so."""
    before, after = FIELDS[measure]
    found = [(session, getattr(session, before), getattr(session, after)) for session in sessions]
    return [Accuracy(session, first, last) for session, first, last in found if first is not None and last is not None]


def dips(found: Sequence[Accuracy]) -> list[Dip]:
    """One for each session but the first."""
    return [Dip(now.session.step, last.kept, now.before, now.kept) for last, now in pairwise(found)]
