"""What goes wrong in a tail, with real workers in Ray: it costs the rollout nothing, or ends the attempt with an error that says so."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sizes import ALL

from engine.cluster.asynchronous_worker import AsynchronousWorker
from engine.cluster.distributed_rollout.coordinator import RolloutState
from engine.cluster.distributed_rollout.driver import Rollout, RolloutDriver
from engine.cluster.ray_session import ray_session
from engine.cluster.shares import RolloutShare
from engine.cluster.spot_training.trained_session import TrainedSession
from engine.cluster.worker import Worker
from engine.config import ClusterConfig, RunConfig, parse
from engine.errors import WorkerLostError
from engine.rollout.interface import Completion, Request, Sampling

SAMPLING = Sampling(max_new_tokens=48)
SLOW = 3.0
"""Seconds."""
TRAINED, LONG = (0, 1, 4), 3.0 if ALL else 12.0
"""Steps in whose tail the other worker is to train, and seconds of those tails: beside other tests it is late, and slow to begin."""
SPEECHLESS = (6, 7)
AHEAD = 8
"""Steps."""
PROMPT, SLACK = (1.0, 0.0) if ALL else (30.0, 1.0)
"""Seconds: what the end of a training may take that has work for minutes, and what a machine that does much else may take from a tail."""
LEAST = 0.9 * SLOW if ALL else 0.0
"""Seconds of a tail's ``SLOW`` that are used. On a busy machine the other worker may be late for it."""


class Fragile(AsynchronousWorker):
    """A worker whose step numbers say what befalls it: in 1 training fails, in 2 rank 1 dies generating, in 6 and 7 it cannot say how far
    it is, in 8 it generates ahead, else all is well.

    Rank 1 takes its time, so that the others wait for it.
    """

    def rollout(
        self, step: int, requests: Sequence[Request], sampling: Sampling, watch: bool = True, ahead: Sequence[Request] = ()
    ) -> RolloutShare:
        if ahead:
            return super().rollout(step, requests, sampling, watch, ahead)
        share = Worker.rollout(self, step, requests, sampling, watch)
        if self.rank == 1:
            time.sleep(LONG if step in TRAINED else SLOW / 6 if step in SPEECHLESS else SLOW)
            if step == 2:
                os._exit(9)
        return share

    def forecast(self) -> float | None:
        if self._step in SPEECHLESS:
            raise IndexError("of a table that grows just now")
        return super().forecast() if self._step == AHEAD else Worker.forecast(self)

    def complete_groups(self, step: int) -> int:
        if step in SPEECHLESS:
            raise KeyError("no such group")
        return super().complete_groups(step)

    def train_drafter(self, step: int) -> TrainedSession | None:
        if step == 1:
            raise MemoryError("no memory for the optimizer")
        return super().train_drafter(step)


@dataclass
class Cluster:
    actors: list[Any]
    scored: list[float] = field(default_factory=list)

    failing: set[tuple[int, str]] = field(default_factory=set)

    def run(self, step: int, state: RolloutState, sampling: Sampling = SAMPLING, count: int = 4, quota: int | None = None) -> Any:
        self.scored.clear()
        shares = [[request(step, rank * count + index) for index in range(count)] for rank in range(2)]
        return RolloutDriver(step, self.actors, state, quota, told=self.failing).run(shares, sampling, self.score)

    def run_ahead(self, count: int, ahead: int) -> Rollout:
        """``count`` responses of each worker in the step AHEAD, and ``ahead`` after them."""
        all_ = [[request(AHEAD, rank * (count + ahead) + index) for index in range(count + ahead)] for rank in range(2)]
        driver = RolloutDriver(AHEAD, self.actors, RolloutState(), told=self.failing)
        sampling = Sampling(max_new_tokens=1000, seed=1)
        return driver.run([share[:count] for share in all_], sampling, self.score, [share[count:] for share in all_])

    def score(self, completions: Sequence[Completion]) -> None:
        time.sleep(0.5)  # such as a checker that thinks: nobody may wait for it
        self.scored.extend([time.time()] * len(completions))


def request(step: int, number: int) -> Request:
    return Request(1000 * step + number, number, (3 + number, 5, 7))


def config(model: Path) -> RunConfig:
    return parse(
        {
            "model": {"path": str(model)},
            "rollout": {"max_batch": 4, "max_prompt_tokens": 8},
            "speculation": {"strategies": [{"depth": 2, "verify": 2}], "tuner": {"name": "fixed"}},
            "drafter": {"path": None, "spot": {"passes": 10_000, "tokens_per_microbatch": 64}},
            "cluster": {"workers": 1, "device": "cpu"},
        }
    )


@pytest.fixture(scope="module")
def cluster(random_model: Path) -> Iterator[Cluster]:
    with ray_session(ClusterConfig(workers=2)):
        import ray as untyped_ray

        ray: Any = untyped_ray
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        actor = ray.remote(concurrency_groups={"control": 1})(Fragile)
        yield Cluster([actor.options(num_cpus=1).remote(rank, config(random_model), "") for rank in range(2)])


def test_idle_time_is_trained_and_the_spans_are_the_rollout(cluster: Cluster) -> None:
    began = time.time()
    rollout = cluster.run(0, RolloutState())
    assert set(rollout.sessions) == {0}
    assert rollout.sessions[0].report.microsteps > 0
    assert 0 < rollout.sessions[0].set_up < LONG
    assert rollout.stopped - rollout.ended < PROMPT
    for worker in range(2):
        spans = sum(span.end - span.start for span in rollout.spans if span.worker == worker)
        assert spans == pytest.approx(rollout.ended - began, rel=0.01, abs=SLACK)
    assert rollout.seconds("TRAINING") > LEAST
    assert len(cluster.scored) == 8
    assert min(cluster.scored) < rollout.ended, "who is done is scored in the tail"


def test_a_tail_too_short_for_its_set_up_is_left_alone(cluster: Cluster) -> None:
    """Worker 1 has generated all it had to and only sleeps: its forecast is zero, so that nobody trains for it."""
    rollout = cluster.run(3, RolloutState(least_remaining=5.0))
    assert rollout.sessions == {}
    assert rollout.seconds("TRAINING") == 0
    assert rollout.seconds("IDLE") > LEAST


def test_a_training_that_fails_costs_the_rollout_nothing(cluster: Cluster) -> None:
    rollout = cluster.run(1, RolloutState())
    assert len(rollout.completions) == 8
    assert rollout.sessions == {}
    ((code, message),) = rollout.statistics.alarms
    assert code == "drafter_training_failed"
    assert "worker 0" in message
    assert "no memory for the optimizer" in message
    assert cluster.run(4, RolloutState()).sessions[0].report.microsteps > 0, "the next tail trains again"


def test_a_rollout_ends_once_its_quota_of_groups_is_complete(cluster: Cluster) -> None:
    """A sixth of the responses, which are the first of each worker: it still has most of its share before it."""
    rollout = cluster.run(5, RolloutState(), Sampling(max_new_tokens=1000, seed=1), count=30, quota=10)
    finishes = [completion.finish for completion in rollout.completions]
    assert len(finishes) == 60
    assert 10 <= 60 - finishes.count("abort") < 60
    assert len(cluster.scored) == 60


def test_a_worker_that_cannot_say_how_far_it_is_costs_the_rollout_nothing_and_is_told_of_once(cluster: Cluster) -> None:
    told = []
    for step in SPEECHLESS:
        rollout = cluster.run(step, RolloutState(least_remaining=0.1), quota=8)
        assert [completion.finish for completion in rollout.completions].count("abort") == 0, "nor is it stopped as the one before was"
        assert rollout.sessions == {}
        assert rollout.untrained == "nobody could say how long the tail would last"
        told += rollout.statistics.alarms
    assert {code for code, _ in told} == {"progress_unknown"}
    assert any("cannot say how far it is (forecast)" in message for _, message in told), "of who is slow: on a busy machine either"
    assert "of a table that grows just now" in "".join(message for _, message in told)
    assert len(told) == len(set(told)) == len(cluster.failing)


def test_workers_go_on_with_later_steps_and_are_busy_until_the_rollout_ends(cluster: Cluster) -> None:
    """What they have by then is handed on when the policy has learned; until then nobody trains the drafter."""
    import ray

    rollout = cluster.run_ahead(count=2, ahead=30)
    assert [completion.request.id - 1000 * AHEAD for completion in rollout.completions] == [0, 1, 32, 33]
    assert {span.activity for span in rollout.spans} == {"BUSY"}
    assert {span.worker for span in rollout.spans} == {0, 1}
    assert rollout.sessions == {}
    interrupted = [share.interrupted for share in ray.get([actor.learn.remote([], None, AHEAD) for actor in cluster.actors])]
    ids = [completion.request.id - 1000 * AHEAD for each in interrupted for completion in each.completions]
    assert ids == [*range(2, 32), *range(34, 64)]
    assert [each.discarded_tokens for each in interrupted] == [0, 0]
    assert len(cluster.run(9, RolloutState()).completions) == 8, "the next rollout is like any other"


def test_a_worker_that_dies_ends_the_attempt_in_a_way_that_can_be_resumed(cluster: Cluster) -> None:
    """The last test of this module: worker 1 is gone."""
    with pytest.raises(WorkerLostError, match=r"rollout of step 2: worker 1.*resume") as caught:
        cluster.run(2, RolloutState())
    assert caught.value.exit_code == 75
