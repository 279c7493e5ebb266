"""Which drafter all engines hold, with two real workers: only a better one, the same everywhere, and back after an alarm."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from crew import MICROSTEPS, Crew, config

from engine.cluster.spot_training.drafter_versions import DrafterVersions, drafted, same, total
from engine.cluster.spot_training.sent_weights import SentWeights
from engine.cluster.spot_training.trained_session import TrainedSession
from engine.drafter.held_out_evaluation import Judged
from engine.drafter.training_report import TrainingReport
from engine.errors import SyncError
from engine.rollout.interface import LoadedWeights, RolloutStatistics

ALARM = RolloutStatistics(alarms=[("acceptance_collapsed", "3% are accepted")])


@pytest.fixture
def crew(random_model: Path) -> Crew:
    return Crew(config(random_model, passes=1000))


def weights(crew: Crew, worker: int = 0) -> dict[str, torch.Tensor]:
    spot = crew.workers[worker].spot
    assert spot
    return spot.published


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def holdings(crew: Crew) -> list[LoadedWeights]:
    return [worker.engine.loaded_weights() for worker in crew.workers]


def claimed(session: TrainedSession, before: float, after: float, noise: float = 0.0) -> TrainedSession:
    """The session as if the held-out comparison had come out like this."""
    return replace(session, report=replace(session.report, before=Judged(before), after=Judged(after), noise=noise))


def test_a_better_drafter_is_published_to_all(crew: Crew) -> None:
    versions = DrafterVersions(crew.call)
    statistics = crew.rollout(0)
    before = weights(crew)
    published = versions.publish({0: claimed(crew.train([0])[0], 0.5, 0.6)}, statistics)
    assert published
    assert (published.version, published.accepted, published.reason) == (1, True, "held-out acceptance 0.500 -> 0.600")
    assert equal(weights(crew, 0), weights(crew, 1))
    assert not equal(weights(crew), before)
    assert len(set(holdings(crew))) == 1
    assert holdings(crew)[0].drafter_version == 1
    assert versions.gain == pytest.approx(3.4 / 3.0), "a chain of 4 brings 2.4 drafts and a token, and brought 2"


def test_an_average_is_sent_once_to_be_judged_and_published(crew: Crew) -> None:
    sent = []

    def send(weights: SentWeights) -> SentWeights:
        sent.append(weights)
        return weights

    versions = DrafterVersions(crew.call, send)
    statistics = crew.rollout(0)
    published = versions.publish({worker: claimed(session, 0.5, 0.6) for worker, session in crew.train([0, 1]).items()}, statistics)
    assert published
    assert len(sent) == 1
    assert not published.accepted or equal(sent[0], weights(crew, 1))


def test_an_average_of_nothing_new_is_no_new_version() -> None:
    """At the end of a pretraining there may have been time to write only."""
    called = list[str]()

    def call(method: str) -> list[Judged]:
        called.append(method)
        return [Judged(0.25), Judged(0.75)]

    assert DrafterVersions(call).average([0, 0]) == (0, Judged(0.5))
    assert called == ["judge_pretrained"]


@pytest.mark.parametrize(("after", "noise"), [(0.5, 0.0), (0.4, 0.0), (0.51, 0.02)])
def test_a_drafter_that_is_no_better_than_chance_is_forgotten_everywhere(crew: Crew, after: float, noise: float) -> None:
    versions = DrafterVersions(crew.call)
    statistics, held = crew.rollout(0), holdings(crew)
    before = weights(crew)
    published = versions.publish({0: claimed(crew.train([0])[0], 0.5, after, noise)}, statistics)
    assert published
    assert (published.version, published.accepted, versions.gain) == (0, False, 1.0)
    assert ("within the noise of 0.020" in published.reason) == (noise > 0)
    assert holdings(crew) == held
    assert equal(crew.workers[0].drafter_weights(), before), "the next session starts from the published version"


def test_an_average_of_copies_is_judged_itself(crew: Crew) -> None:
    """Each copy claims to be better; what counts is how the average does on the workers' held-out responses."""
    versions = DrafterVersions(crew.call)
    statistics = crew.rollout(0)
    sessions = {worker: claimed(session, 0.0, 1.0) for worker, session in crew.train([0, 1]).items()}
    copies = [worker.drafter_weights() for worker in crew.workers]
    average = {name: (copies[0][name] + copies[1][name]) / 2 for name in copies[0]}
    published = versions.publish(sessions, statistics)
    assert published
    judged = crew.call("judge", average if not published.accepted else weights(crew))
    if published.accepted:
        assert all(torch.allclose(average[name], weights(crew)[name], atol=1e-6) for name in average)
    assert published.report.after.accepted == pytest.approx(sum(after.accepted for _, after in judged) / 2)
    assert published.report.after.top3 == pytest.approx(sum(after.top3 for _, after in judged) / 2)
    assert published.accepted == (published.report.gain > published.report.noise)
    assert published.report.microsteps == 2 * MICROSTEPS
    assert len(set(holdings(crew))) == 1


def test_nothing_trained_is_nothing_published(crew: Crew) -> None:
    versions = DrafterVersions(crew.call)
    assert versions.publish({}, RolloutStatistics()) is None
    nothing = TrainedSession(TrainingReport(0, 0, 0.0, Judged(0.0), Judged(0.0), 0.0), 0.0)
    assert versions.publish({0: nothing, 1: nothing}, RolloutStatistics()) is None


@pytest.mark.parametrize("where", ["rollout", "evaluation"])
def test_an_alarm_brings_the_last_good_version_back_under_a_new_number(crew: Crew, where: str) -> None:
    versions = DrafterVersions(crew.call)
    for step, after in ((0, 0.6), (1, 0.7)):
        statistics = crew.rollout(step)
        assert drafted(statistics)
        good = weights(crew)
        versions.publish({0: claimed(crew.train([0])[0], 0.5, after)}, statistics)
    assert (versions.version, versions.good) == (2, 1), "version 1 drafted well in the rollout of step 1; version 2 is unproven"
    bad = weights(crew)
    assert versions.heed([("acceptance_recovered", "60% are accepted")]) is None
    if where == "rollout":
        statistics = crew.rollout(2)
        assert statistics.alarms == []
        published = versions.publish(crew.train([1]), replace(statistics, alarms=ALARM.alarms))
    else:
        published = versions.heed(ALARM.alarms)
    assert published
    assert (published.version, published.accepted, published.reason) == (3, True, "acceptance collapsed: version 1 again")
    assert published.report.microsteps == 0
    lost = [1 + 4 * judged.accepted for judged in (published.report.before, published.report.after)]
    assert versions.gain == pytest.approx(3.4 / 3.0 * 3.8 / 3.0 * lost[1] / lost[0])
    assert equal(weights(crew), good)
    assert not equal(weights(crew), bad)
    assert len(set(holdings(crew))) == 1
    assert holdings(crew)[0].drafter_version == 3
    for worker in range(2):
        assert equal(crew.workers[worker].drafter_weights(), good), "what was trained from the bad version is gone"
    assert versions.heed(ALARM.alarms) is None, "there is nothing to go back to"
    assert versions.publish({}, RolloutStatistics()) is None, "the alarm is settled"


def test_a_good_version_is_not_rolled_back(crew: Crew) -> None:
    """Acceptance collapsed with the target's update, not with a drafter's: then training is the remedy."""
    versions = DrafterVersions(crew.call)
    crew.rollout(0)
    published = versions.publish({0: claimed(crew.train([0])[0], 0.5, 0.6)}, ALARM)
    assert published
    assert (published.version, versions.good) == (1, 0)
    assert "held-out" in published.reason


def test_a_version_that_drafted_well_is_good_though_nothing_was_trained_then(crew: Crew) -> None:
    versions = DrafterVersions(crew.call)
    statistics = crew.rollout(0)
    versions.publish({0: claimed(crew.train([0])[0], 0.5, 0.6)}, statistics)
    assert (versions.version, versions.good) == (1, 0)
    assert versions.publish({}, crew.rollout(1)) is None
    assert versions.good == 1
    assert versions.heed(ALARM.alarms) is None
    assert all(worker.spot and worker.spot.good is worker.spot.published for worker in crew.workers)


def test_versions_go_on_after_a_resume(crew: Crew, random_model: Path, tmp_path: Path) -> None:
    versions = DrafterVersions(crew.call)
    statistics = crew.rollout(0)
    good = weights(crew)
    versions.publish({0: claimed(crew.train([0])[0], 0.5, 0.6)}, statistics)
    unproven = weights(crew)
    crew.call("stage")
    crew.call("write", tmp_path)
    other = Crew(config(random_model))
    resumed = DrafterVersions(other.call)
    resumed.resumed(max(other.call("load", tmp_path)), **versions.state())
    assert (resumed.version, resumed.good, resumed.gain) == (1, 0, versions.gain)
    assert equal(weights(other), unproven)
    assert len(set(holdings(other))) == 1
    assert resumed.heed(ALARM.alarms), "the good version is in the checkpoint, too"
    assert equal(weights(other), good)
    other.call("stage")
    other.call("write", tmp_path)
    resumed.resumed(max(other.call("load", tmp_path)))
    assert (resumed.version, resumed.good) == (2, 2)


def test_engines_that_differ_are_an_error(crew: Crew) -> None:
    same(holdings(crew))
    engine: Any = crew.workers[1].engine
    next(iter(engine._runner.target.parameters().values()))[0, 0] += 1e-3
    with pytest.raises(SyncError, match=r"worker 0 holds .* worker 1 holds"):
        same(holdings(crew))
    versions = DrafterVersions(crew.call)
    statistics = crew.rollout(0)
    with pytest.raises(SyncError):
        versions.publish({0: claimed(crew.train([0])[0], 0.5, 0.6)}, statistics)


def test_sessions_add_up_by_micro_steps() -> None:
    nothing = Judged(0.9)
    reports = [TrainingReport(1, 100, 2.0, nothing, nothing, 0.4), TrainingReport(3, 200, 1.0, nothing, nothing, 0.8)]
    found = total(reports, [(Judged(0.2, 0.3, 0.4), Judged(0.4)), (Judged(0.6, 0.7, 0.8), Judged(0.8))])
    assert (found.microsteps, found.tokens, found.loss, found.mix_distance) == (4, 300, 1.25, pytest.approx(0.7))  # type: ignore[comparison-overlap]
    assert found.before[:3] == pytest.approx((0.5, 0.6, 0.7))
    assert found.after.accepted == pytest.approx(0.7)
