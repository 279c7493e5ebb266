"""Versions of the drafter: published only if better by more than noise, the same in every engine, and rolled back where one made
acceptance collapse.

Workers that train in one tail each train a copy of the drafter, from the same version on their own responses, and the copies are
averaged with their numbers of micro-steps as weights (local SGD, arXiv 1805.09767), not their gradients at every step as a large
batch would have it. TLT's setting asks for that: workers join and leave at any moment, and a step that all share would make each wait
for the slowest, with a process group to be made anew at every change. With plain SGD and one micro-step each the average *is* the
large-batch step; with more steps, or AdamW, it is an approximation, which the held-out comparison here judges before it is used.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, isfinite
from statistics import fmean
from typing import Any

from engine.cluster.spot_training.sent_weights import SentWeights
from engine.cluster.spot_training.trained_session import TrainedSession
from engine.drafter.held_out_evaluation import LOOK_AHEAD, Judged, gain_noise
from engine.drafter.local_sgd import merge
from engine.drafter.training_report import TrainingReport
from engine.errors import SyncError
from engine.rollout.interface import Alarm, LoadedWeights, RolloutStatistics

COLLAPSED = "acceptance_collapsed"


Call = Callable[..., list[Any]]
"""Calls a method, by its name and arguments, of ``workers``, by default of all; their results in order."""
Send = Callable[[SentWeights], Any]
"""Puts weights where all workers find them; what it returns stands for them in a ``Call``."""


@dataclass(frozen=True)
class Published:
    """What became of the drafter that was trained in a rollout's tail; ``version`` is the one that all engines hold now. ``cost``: about
    how many seconds that took all who waited for it.

    After a rollback ``report`` has no micro-steps: it compares the version taken away with the one that came back.
    """

    version: int
    accepted: bool
    reason: str
    report: TrainingReport
    cost: float = 0.0

    @property
    def gain(self) -> float:
        """Share of tokens that it adds to a draft."""
        return gain_in_tokens(self.report) - 1 if self.accepted else 0.0


class DrafterVersions:
    """``version`` is the newest, which all engines hold; ``good`` the newest that drafted well in a rollout. ``gain``: how many times as
    many tokens a draft brings as with the drafter that was there before the first step, an estimate: the product, over all versions since,
    of what each brought on held-out responses against the one before it, both judged with the target of that moment."""

    def __init__(self, call: Call, send: Send = lambda weights: weights) -> None:
        self._call, self._send = call, send
        self.version = 0
        self.good = 0
        self.gain = 1.0

    def state(self) -> dict[str, Any]:
        """What a checkpoint has of it, beside the version; see ``resumed``."""
        return {"good": self.good, "gain": self.gain}

    def resumed(self, version: int, good: int | None = None, gain: float = 1.0) -> None:
        """Every worker has loaded ``version`` from a checkpoint, and the ``good`` one; None: that is the same."""
        self.version, self.good, self.gain = version, version if good is None else good, gain

    def heed(self, alarms: Iterable[Alarm]) -> Published | None:
        """If the watchdog gave the alarm, the last good version comes back at once, as a new one: versions never fall. None if it did not,
        or if there is none to go back to. SyncError if the engines do not hold the same afterwards."""
        return self._roll_back() if collapsed(alarms) and self.good != self.version else None

    def publish(self, sessions: Mapping[int, TrainedSession], statistics: RolloutStatistics) -> Published | None:
        """Loads what the workers trained in a rollout's tail into every engine if it is better on held-out responses.

        None if nothing was trained. Of that rollout's alarms see ``heed``. SyncError if the engines do not hold the same afterwards.
        """
        if (rolled_back := self.heed(statistics.alarms)) is not None:
            return rolled_back
        if drafted(statistics) and not collapsed(statistics.alarms):
            self._prove()
        reports = {worker: session.report for worker, session in sessions.items() if session.report.microsteps}
        if not reports:
            return None
        report, better = self._judged(reports)
        if better is None:
            self._call("keep")
        else:
            self.version += 1
            self.gain *= gain_in_tokens(report)
            same(self._call("publish", better, self.version))
        return Published(self.version, better is not None, _acceptance(report), report)

    def average(self, microsteps: Sequence[int]) -> tuple[int, Judged]:
        """Publishes the average of all workers' copies, if there is anything new in them, whatever it is worth: a pretraining goes on from
        it. The version, and what all held-out responses say of it."""
        if any(microsteps):
            weights = self._send(self._merged(microsteps))
            self._prove()
            self.version += 1
            same(self._call("publish", weights, self.version))
        return self.version, mean(self._call("judge_pretrained"), [1] * len(microsteps))

    def blend(self, microsteps: Sequence[int]) -> None:
        """Every copy is their average from now on; nothing is published."""
        self._call("adopt_pretrained", self._send(self._merged(microsteps)))

    def _prove(self) -> None:
        """The newest version is the one to go back to from now on."""
        if self.good != self.version:
            self.good = self.version
            self._call("prove")

    def _merged(self, microsteps: Sequence[int]) -> SentWeights:
        return SentWeights(merge(list(zip(self._call("drafter_weights"), microsteps, strict=True))))

    def _judged(self, reports: Mapping[int, TrainingReport]) -> tuple[TrainingReport, Any]:
        """The sessions together, and the drafter that came of them, sent, if it is better than the published one; else None. An average of
        copies is none of them, so that those who trained judge it anew."""
        if len(reports) == 1:
            report = next(iter(reports.values()))
            return report, self._average(reports) if report.better else None
        average = self._average(reports)
        report = total(list(reports.values()), self._call("judge", average, workers=reports))
        return report, average if report.better else None

    def _average(self, reports: Mapping[int, TrainingReport]) -> Any:
        copies = [(*self._call("drafter_weights", workers=[worker]), report.microsteps) for worker, report in reports.items()]
        return self._send(SentWeights(merge(copies)))

    def _roll_back(self) -> Published:
        before, after = (mean(judged, [1] * len(judged)) for judged in zip(*self._call("judge", None), strict=True))
        self.version += 1
        same(self._call("roll_back", self.version))
        reason = f"acceptance collapsed: version {self.good} again"
        self.good = self.version
        report = TrainingReport(0, 0, 0.0, before, after, 0.0)
        self.gain *= gain_in_tokens(report)
        return Published(self.version, True, reason, report)


def collapsed(alarms: Iterable[Alarm]) -> bool:
    """Whether the watchdog says so."""
    return any(code == COLLAPSED for code, _ in alarms)


def drafted(statistics: RolloutStatistics) -> bool:
    """Whether the learned drafter was in use."""
    return any(arm.strategy.startswith("eagle") and arm.requests for arm in statistics.arms)


def same(holdings: Sequence[LoadedWeights]) -> None:
    """SyncError unless all workers hold the same versions and the same weights."""
    if len(set(holdings)) > 1:
        told = "; ".join(f"worker {worker} holds {loaded_weights}" for worker, loaded_weights in enumerate(holdings))
        raise SyncError(f"the engines differ after a sync; resume from the last checkpoint: {told}")


def total(reports: Sequence[TrainingReport], judgements: Sequence[tuple[Judged, Judged]]) -> TrainingReport:
    """Sums of micro-steps and tokens; means, weighted by micro-steps, of losses and of judgements (before, after), each of which is of
    other responses, as is its noise."""
    steps = [report.microsteps for report in reports]
    before, after = (mean(judged, steps) for judged in zip(*judgements, strict=True))
    noise = hypot(*(gain_noise(*pair) * count for pair, count in zip(judgements, steps, strict=True))) / sum(steps)
    tokens = sum(report.tokens for report in reports)
    loss, mix = (fmean([getattr(report, field) for report in reports], steps) for field in ("loss", "mix_distance"))
    return TrainingReport(sum(steps), tokens, loss, before, after, mix, noise)


def mean(judged: Sequence[Judged], weights: Sequence[int]) -> Judged:
    """Of each figure, not of the parts."""
    accepted, top1, top3 = (fmean([getattr(each, field) for each in judged], weights) for field in ("accepted", "top1", "top3"))
    return Judged(accepted, top1, top3)


def after(first: TrainedSession | None, then: TrainedSession) -> TrainedSession:
    """Two sessions of one worker and step as one: the second went on from what the first had made."""
    if first is None or not first.report.microsteps:
        return then
    judged = (first.report.before, then.report.after if then.report.microsteps else first.report.after)
    whole = total([first.report, then.report], [judged, judged])
    noise = hypot(first.report.noise, then.report.noise)  # they were judged on other responses
    return TrainedSession(replace(whole, noise=noise), max(first.set_up, then.set_up))


def gain_in_tokens(report: TrainingReport) -> float:
    """Tokens of a target pass with the later drafter over those with the earlier one, the target's own included; 1 if nobody judged."""
    tokens = [1 + LOOK_AHEAD * judged.accepted for judged in (report.before, report.after)]
    return tokens[1] / tokens[0] if all(map(isfinite, tokens)) else 1.0


def _acceptance(report: TrainingReport) -> str:
    within = "" if report.better or report.gain <= 0 else f", which is within the noise of {report.noise:.3f}"
    return f"held-out acceptance {report.before.accepted:.3f} -> {report.after.accepted:.3f}{within}"
