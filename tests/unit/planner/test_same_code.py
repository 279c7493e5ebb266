"""The planner plans with the engine's own rules: change one of them, and the plan changes."""

from collections.abc import Sequence
from typing import Any

import pytest
from simulated import config, seconds, steps

from engine.cluster.distributed_rollout import request_assignment
from engine.cluster.distributed_rollout.coordinator import RolloutState
from engine.cluster.spot_training.when_to_train import TrainingDecision
from engine.experience.partial_rollouts import Backlog, Group
from engine.planner.simulation import run
from engine.speculation.elastic_switch import ElasticSwitch
from engine.speculation.tuner import goodput

PARTIAL: dict[str, Any] = {"rollout": {"scheduling": {"over_sampling": 1.5, "partial": True}}}
SORTED: dict[str, Any] = {"rollout": {"scheduling": {"longest_first": True}}}


def test_a_tuner_that_is_told_of_dearer_last_steps_drafts_less(monkeypatch: pytest.MonkeyPatch) -> None:
    before, plain = seconds(config()), seconds(config({"speculation": {"enabled": False}}))
    monkeypatch.setattr(goodput, "LAST", 1e9)
    after = seconds(config())
    assert before[1] < plain[1]
    assert sum(after) == pytest.approx(sum(plain), rel=0.02)


def test_a_switch_that_never_turns_on_is_plain_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ElasticSwitch, "update", lambda *_: False)
    assert {choice.label for choice in steps(config(), 1)[0].choices} == {"off"}


def test_a_coordinator_that_finds_no_tail_worth_it_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    start = config({"drafter": {"path": None}})
    assert sum(step.tail.seconds("TRAINING") for step in steps(start)) > 0
    before = seconds(start, 6)
    monkeypatch.setattr(RolloutState, "worth_it", lambda *_: False)
    assert sum(step.tail.seconds("TRAINING") for step in steps(start)) == 0
    assert seconds(start, 6)[-1] > before[-1], "a drafter that never learns must be slower"


def test_when_to_train_is_decided_by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    never = TrainingDecision(False, "by no means")
    monkeypatch.setattr(run, "decide", lambda *_: never)
    assert {step.untrained for step in steps(config())} == {"by no means"}


def test_shares_are_assigned_by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = steps(config(SORTED), 2)[1].shares.group
    assert (shared >= 0).sum(1).tolist() == [16] * 4

    def all_to_one(lengths: Sequence[int], parts: int, *_: object) -> list[list[int]]:
        return [[*range(len(lengths))]] + [[] for _ in range(parts - 1)]

    monkeypatch.setattr(request_assignment, "balance", all_to_one)
    unfair = steps(config(SORTED), 2)[1]
    assert (unfair.shares.group >= 0).sum(1).tolist() == [64, 0, 0, 0]
    assert unfair.tail.seconds("BUSY") == unfair.rollout_end


def test_the_backlog_is_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = [int(step.shares.begun.sum()) for step in steps(config(PARTIAL))]
    assert begun[0] == 0 < begun[1]
    kept = Backlog.take

    def forgetful(self: Backlog, count: int) -> list[Group]:
        self.groups = []
        return kept(self, count)

    monkeypatch.setattr(Backlog, "take", forgetful)
    assert [int(step.shares.begun.sum()) for step in steps(config(PARTIAL))] == [0, 0, 0]
