"""What each update of the target takes from the drafter's accuracy, what its training gives back, and why it was not trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from dashboard.text.formats import count, percent
from longtail.schemas.telemetry import DrafterSession, SpeculationStep

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
class AccuracyDrop:
    """``level`` is what the engines' drafter had after the session before, ``before`` what was left of it at the next one, under the
    updated target and on newer responses, and ``after`` what the engines' drafter has after that session."""

    step: int
    level: float
    before: float
    after: float

    @property
    def is_dip(self) -> bool:
        """Whether less than ``RECOVERED`` of the level was left."""
        return self.before < RECOVERED * self.level

    @property
    def recovered(self) -> bool:
        """Whether it was a dip, and one session brought ``RECOVERED`` of the level back."""
        return self.is_dip and self.after >= RECOVERED * self.level


def accuracies(sessions: Sequence[DrafterSession], measure: Measure) -> list[Accuracy]:
    """Of the sessions that were measured so."""
    before, after = FIELDS[measure]
    found = [(session, getattr(session, before), getattr(session, after)) for session in sessions]
    return [Accuracy(session, first, last) for session, first, last in found if first is not None and last is not None]


def accuracy_drops(found: Sequence[Accuracy]) -> list[AccuracyDrop]:
    """One for each session but the first."""
    return [AccuracyDrop(now.session.step, last.kept, now.before, now.kept) for last, now in pairwise(found)]


def dips_told(found: Sequence[AccuracyDrop]) -> str:
    """How many of the sessions found a dip, and how many of these dips one session made good. Any number of updates lies between two."""
    dips = [drop for drop in found if drop.is_dip]
    less = f"found less than {percent(RECOVERED)} of the level before"
    if not dips:
        return f"No session {less}."
    made_good = sum(dip.recovered for dip in dips)
    return f"{len(dips)} of {count(len(found), 'session')} {less}; its training brought that back in {made_good or 'none'} of these."


def untrained_reasons(steps: Sequence[SpeculationStep]) -> list[str]:
    """Why idle workers did not train the drafter, a line for each reason: ``Drafter not trained in steps 3, 5: no worker was idle``."""
    reasons: dict[str, list[int]] = {}
    for item in steps:
        if item.untrained:
            reasons.setdefault(item.untrained, []).append(item.step)
    return [
        f"Drafter not trained in step{'s' if len(at) > 1 else ''} {', '.join(map(str, at))}: {reason}" for reason, at in reasons.items()
    ]
