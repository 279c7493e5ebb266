"""A drafter that breaks between two evaluations, with two real workers: the watchdogs see it in the second, and it goes at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from crew import SAMPLING, Crew, config, requests

from engine.cluster.spot_training.drafter_versions import DrafterVersions
from engine.cluster.spot_training.session_value import SessionValue
from engine.cluster.spot_training.when_to_train import TrainingDecision, TrainingHistory
from engine.cluster.worker_group import WorkerGroup
from engine.experience.scheduling_state import SchedulingState
from engine.rollout.interface import Answers
from engine.speculation.cooldown import Cooldown
from engine.speculation.counterfactual import DecodeSeconds


class Here:
    """A worker that is asked as an actor of Ray is, in this process."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker

    def __getattr__(self, method: str) -> Any:
        return Asked(getattr(self._worker, method))


class Asked:
    def __init__(self, remote: Callable[..., Any]) -> None:
        self.remote = remote

    def options(self, **_: Any) -> "Asked":
        return self


class NoRay:
    @staticmethod
    def get(references: list[Any]) -> list[Any]:
        return references


@pytest.fixture
def crew(random_model: Path) -> Crew:
    return Crew(config(random_model))


@pytest.fixture
def group(crew: Crew, random_model: Path) -> WorkerGroup:
    group: Any = object.__new__(WorkerGroup)
    group._actors, group._ray = [Here(worker) for worker in crew.workers], NoRay()
    group._ranks, group.schedule, group._cooldown = group._actors, SchedulingState(config(random_model)), Cooldown()
    group._versions, group._history = DrafterVersions(crew.call), TrainingHistory(last=3, flat=2)
    group._value, group._set_up = SessionValue(), 0.25
    return group  # type: ignore[no-any-return]


def test_what_training_is_worth_decides_and_survives_a_checkpoint(group: WorkerGroup, random_model: Path, tmp_path: Path) -> None:
    group._config = config(random_model)
    group._spot = group._config.drafter.spot
    group._value.rolled_out(0, [DecodeSeconds(10.0, 10.0, 10.0, 10.0)], {}, 0.0)
    group._value.trained(0.0, 99.0)
    group._history, group._set_up = TrainingHistory(last=3), 6.0
    group.stage()
    group.write(tmp_path / "saved")
    group._value, group._history, group._set_up = SessionValue(), TrainingHistory(), 0.25
    assert group._decision(4).train
    group.load(tmp_path / "saved")
    assert group._decision(4) == TrainingDecision(False, "training costs more than it would save")
    assert group._set_up == 6.0


def answered(group: WorkerGroup) -> Answers:
    return group.answer([*requests(0, 0), *requests(0, 1)], SAMPLING)


def test_the_alarms_of_all_workers_are_told_and_the_good_drafter_is_back(crew: Crew, group: WorkerGroup, tmp_path: Path) -> None:
    for _ in range(4):
        assert answered(group).alarms == []
    (good, _), versions = crew.call("drafter_weights"), group._versions
    broken = {name: torch.full_like(weight, 9.0) for name, weight in good.items()}
    versions.version = 1
    crew.call("publish", broken, 1)
    group.stage()
    group.write(tmp_path / "saved")
    versions.resumed(0)
    group.load(tmp_path / "saved")
    answers = answered(group)
    assert [completion.request.id for completion in answers.completions] == list(range(32))
    assert [code for code, _ in answers.alarms] == ["acceptance_collapsed"] * 2
    back = group.heed(answers.alarms)
    assert back
    assert (back.version, back.reason) == (2, "acceptance collapsed: version 0 again")
    for worker in crew.workers:
        assert worker.engine.loaded_weights().drafter_version == 2
        assert worker.spot
        assert all(torch.equal(worker.spot.published[name], good[name]) for name in good)
    assert group._history == TrainingHistory(), "there is something to learn again"
    assert group.heed(answered(group).alarms) is None
