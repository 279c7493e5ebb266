"""The rollout of two workers whose replies come one after the other, as told."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from engine.cluster.distributed_rollout.coordinator import RolloutState
from engine.cluster.distributed_rollout.driver import RolloutDriver
from engine.cluster.ray_session import _isolate
from engine.cluster.shares import RolloutShare
from engine.rollout.interface import Completion, Request, RolloutStatistics, Sampling


class Replies:
    """In place of Ray: references are names, which come back in this order."""

    def __init__(self, *order: str) -> None:
        self._order = list(order)
        self.asked: list[str] = []

    def actor(self, number: int) -> Any:
        def method(name: str) -> Any:
            return SimpleNamespace(remote=lambda *_: self._ask(f"{name} {number}"), options=lambda **_: method(name))

        return SimpleNamespace(**{name: method(name) for name in ("rollout", "infer", "train_drafter", "halt", "forecast")})

    def _ask(self, reference: str) -> str:
        self.asked.append(reference)
        return reference

    def wait(self, references: Sequence[str], **_: Any) -> tuple[list[str], list[str]]:
        ready = next(reference for reference in self._order if reference in references)
        self._order.remove(ready)
        return [ready], []

    def get(self, reference: str) -> Any:
        number = int(reference[-1])
        completion = Completion(Request(number, number, (1,)), (2,), (-1.0,), "stop", 0, 0)
        return RolloutShare([completion], RolloutStatistics(), 0.0) if reference.startswith("rollout") else None


def test_who_is_done_infers_first_and_trains_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others' last one does not: all share what is left then."""
    replies = Replies("rollout 0", "infer 0", "rollout 1", "train_drafter 0")
    _isolate()  # ray reads it when it is first imported
    import ray

    monkeypatch.setattr(ray, "wait", replies.wait)
    monkeypatch.setattr(ray, "get", replies.get)
    actors = [replies.actor(number) for number in range(2)]
    driver = RolloutDriver(0, actors, RolloutState(), infer=lambda worker, _: actors[worker].infer.remote())
    activities: list[str] = []
    post = driver._post

    def told(event: Any) -> None:
        activities.append(type(event).__name__)
        post(event)

    monkeypatch.setattr(driver, "_post", told)
    rollout = driver.run([[], []], Sampling(), lambda _: None)
    asked = dict.fromkeys(each for each in replies.asked if not each.startswith("rollout"))  # halts may be repeated
    assert [*asked] == ["infer 0", "train_drafter 0", "halt 0"]
    assert activities == ["RolloutStarted", "WorkerDone", "TrainingStarted", "WorkerDone", "TrainingStopped"]
    assert [completion.request.id for completion in rollout.completions] == [0, 1]
    assert {span.activity for span in rollout.spans if span.worker == 0} == {"BUSY", "IDLE", "TRAINING"}
