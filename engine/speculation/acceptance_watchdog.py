"""Turns the learned drafter off where loading weights broke it: acceptance falls to nearly zero, and nothing else would tell.

After a load the acceptance of the first draft token is on trial against what it was before. It has collapsed where it is below half of
that and a natural dip, to three quarters of it, explains so few accepted tokens with a probability (binomial) below 5e-5.
From 0.8 to 0.6 the alarm is false in less than one load of 10,000, all the looks at a trial together.
"""

from dataclasses import asdict, dataclass
from math import exp, lgamma, log, log1p
from typing import Any, Literal

COLLAPSE = 0.5
DIP = 0.75
LEVEL = 5e-5
LOOK_EVERY = 4  # steps; each look is another chance of a false alarm
LOOK_STEPS, LOOK_TOKENS = 12, 24  # a look needs one of the two
TRIAL_STEPS, TRIAL_TOKENS = 20, 32  # a trial needs both, so it takes longer with one request than with two or more
BASELINE_TOKENS = 256
MEMORY = 4096  # first tokens after which an observation counts 1/e in the baseline


@dataclass(frozen=True)
class Notice:
    code: Literal["acceptance_collapsed", "acceptance_recovered"]
    message: str


@dataclass
class Evidence:
    """``accepted`` of ``drafted`` first draft tokens; the counts of a baseline are discounted."""

    steps: int = 0
    drafted: float = 0.0
    accepted: float = 0.0

    @property
    def rate(self) -> float:
        return self.accepted / self.drafted

    def add(self, drafted: float, accepted: float, keep: float = 1.0) -> None:
        self.steps += 1
        self.drafted = self.drafted * keep + drafted
        self.accepted = self.accepted * keep + accepted


class Watchdog:
    """Before 256 first tokens were seen there is nothing to compare with, and loads are not tried.

    The learned drafter may be used while it is on trial. A trial that fails takes it away until the next load, which is tried against
    the same old baseline. A notice tells of each change from good to collapsed and back, not of each failed trial.
    """

    def __init__(self, when: str = "With") -> None:
        """``when`` begins each notice."""
        self._when = when
        self._baseline = Evidence()
        self._trial: Evidence | None = None
        self._collapsed = False
        self._versions = {"target": 0, "drafter": 0}
        self._proven = dict(self._versions)
        self._notices: list[Notice] = []

    @property
    def allows(self) -> bool:
        """Whether the learned drafter may be used."""
        return self._trial is not None or not self._collapsed

    @property
    def trying(self) -> bool:
        """Whether a trial is under way."""
        return self._trial is not None

    def loaded(self, what: Literal["target", "drafter"], version: int) -> None:
        """New weights; a trial under way starts again. What it has shown stays, or rollouts that are shorter than a trial would all be
        compared with the first ones, and a drafter that is of no use to them would never be told of."""
        if self._trial and self._trial.drafted >= TRIAL_TOKENS:
            self._end(self._trial, has_collapsed(self._trial, self._baseline.rate))
        self._versions[what] = version
        if self._baseline.drafted >= BASELINE_TOKENS:
            self._trial = Evidence()
        else:
            self._proven = dict(self._versions)

    def observe(self, drafted: int, accepted: int) -> None:
        """A decode step verified the learned drafts of ``drafted`` requests, and ``accepted`` of their first tokens were accepted."""
        if not drafted or not self.allows:
            return
        if self._trial is None:
            self._baseline.add(drafted, accepted, keep=exp(-drafted / MEMORY))
            return
        self._trial.add(drafted, accepted)
        if _due(self._trial) and has_collapsed(self._trial, self._baseline.rate):
            self._end(self._trial, collapsed=True)
        elif self._trial.steps >= TRIAL_STEPS and self._trial.drafted >= TRIAL_TOKENS:
            self._end(self._trial, collapsed=False)

    def take_alarms(self) -> list[Notice]:
        """The notices since the last call; they are not part of ``state``."""
        notices, self._notices = self._notices, []
        return notices

    def state(self) -> dict[str, Any]:
        """For a checkpoint; plain JSON values."""
        return {
            "baseline": asdict(self._baseline),
            "trial": self._trial and asdict(self._trial),
            "collapsed": self._collapsed,
            "versions": dict(self._versions),
            "proven": dict(self._proven),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self._baseline = Evidence(**state["baseline"])
        self._trial = state["trial"] and Evidence(**state["trial"])
        self._collapsed = state["collapsed"]
        self._versions, self._proven = dict(state["versions"]), dict(state["proven"])

    def _end(self, trial: Evidence, collapsed: bool) -> None:
        if collapsed != self._collapsed:
            now = "off until a better drafter or target weights arrive" if collapsed else "on again"
            message = (
                f"{self._when} {_named(self._versions)}, {trial.rate:.0%} of the drafts' first tokens are accepted "
                f"({trial.accepted:.0f} of {trial.drafted:.0f}); with {_named(self._proven)} it was {self._baseline.rate:.0%}. "
                f"Speculation with the drafter is {now}."
            )
            self._notices.append(Notice("acceptance_collapsed" if collapsed else "acceptance_recovered", message))
        self._trial, self._collapsed = None, collapsed
        if not collapsed:
            self._proven = dict(self._versions)
            self._baseline.add(trial.drafted, trial.accepted, keep=exp(-trial.drafted / MEMORY))


def has_collapsed(trial: Evidence, baseline: float) -> bool:
    """Whether the acceptance rate of ``trial`` is far enough below the rate ``baseline``."""
    if trial.rate >= COLLAPSE * baseline:
        return False
    return binomial_tail(int(trial.accepted), int(trial.drafted), DIP * baseline) < LEVEL


def binomial_tail(most: int, trials: int, probability: float) -> float:
    """Probability of ``most`` successes or fewer; 0 < ``probability`` < 1. By logarithms: the first terms may be below 1e-308."""
    success, failure = log(probability), log1p(-probability)
    logs = (lgamma(trials + 1) - lgamma(k + 1) - lgamma(trials - k + 1) + k * success + (trials - k) * failure for k in range(most + 1))
    return sum(map(exp, logs))


def _due(trial: Evidence) -> bool:
    return trial.steps % LOOK_EVERY == 0 and (trial.steps >= LOOK_STEPS or trial.drafted >= LOOK_TOKENS)


def _named(versions: dict[str, int]) -> str:
    return f"target {versions['target']} and drafter {versions['drafter']}"
