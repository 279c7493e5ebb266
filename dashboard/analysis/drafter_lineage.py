"""Where a drafter comes from: the versions that its run published, back to what the run began with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dashboard.analysis.run_config import section
from dashboard.text.formats import duration, number, percent
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import DrafterSession

OWN_LAYER = "the last layer of its target"


@dataclass(frozen=True)
class Ancestor:
    """A published version, and the one that it was trained from."""

    session: DrafterSession
    parent: int

    def row(self) -> dict[str, str]:
        before, after = number(self.session.held_out_before, 3), number(self.session.held_out_after, 3)
        return {
            "Version": str(self.session.drafter_version),
            "From version": str(self.parent),
            "After step": str(self.session.step),
            "Held-out acceptance": f"{before} → {after}",
            "Trained tokens": f"{self.session.tokens:,}",
            "Why published": self.session.reason,
        }


def ancestors(sessions: Sequence[DrafterSession], version: int | None, first: int = 0) -> list[Ancestor]:
    """Newest first, down from ``version`` (None: the newest). ``first`` is what the steps began with, see ``first_version``."""
    published = [each for each in sessions if each.published and (version is None or each.drafter_version <= version)]
    parents = [first, *(each.drafter_version for each in published)]
    return [Ancestor(session, parent) for session, parent in zip(published, parents, strict=False)][::-1]


def first_version(run: Run) -> int:
    """That the steps began with: 0, or that of the pretraining."""
    return run.pretraining.drafter_version if run.pretraining else 0


def origin(run: Run) -> str:
    """What version 0 was."""
    if run.drafter_id:
        return f"the drafter of artifact {run.drafter_id}"
    path = section(run.config, "drafter").get("path")
    if path == "auto":
        return _without_one_of_the_platform(run)
    return str(path or OWN_LAYER)


def _without_one_of_the_platform(run: Run) -> str:
    """What auto stands for then. One that the engine has built in is trained before the first step only where there are no steps."""
    if run.drafter_id is None and not run.finished:
        return "not chosen yet"
    pretrained_own = run.pretraining is not None and run.steps > 0
    return OWN_LAYER if pretrained_own else f"the drafter that is built in for its target, or if there is none, {OWN_LAYER}"


def pretrained(run: Run) -> str:
    """What the training before the first step has made of version 0; empty without."""
    if (latest := run.pretraining) is None:
        return ""
    learned = f"{duration(latest.seconds)}, {latest.responses:,} responses, {percent(latest.held_out)} of held-out drafts accepted"
    return f"Version {latest.drafter_version}: trained from version 0 before the first step ({learned})"


def drafter_version(metadata: Mapping[str, str]) -> int | None:
    told = metadata.get("drafter_version", "")
    return int(told) if told.isdecimal() else None
