"""One rollout over all workers: the coordinator's Ray shell. Workers that are done train the drafter until the last one is done.

The coordinator is called where replies arrive, in the training loop's process: an actor of its own would add a hop to each reply.
Whatever takes long there (scoring responses) runs in a thread beside it.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from engine.cluster.distributed_rollout import coordinator
from engine.cluster.distributed_rollout.coordinator import ActivitySpan, Command, Phase, RolloutState, StartTraining
from engine.cluster.distributed_rollout.early_stop import EarlyStop
from engine.cluster.distributed_rollout.tail_inference import TailInference, with_inference
from engine.cluster.ray_session import lost, said
from engine.cluster.spot_training.drafter_versions import after
from engine.cluster.spot_training.trained_session import TrainedSession
from engine.cluster.spot_training.untrained_reasons import Refusal, untrained_reason
from engine.rollout.interface import Completion, Request, RolloutStatistics, Sampling
from engine.speculation.step_pace import Neighbours

ASK_EVERY = 0.1
"""Seconds between forecasts, while workers wait for one that makes training worth it."""
COUNT_EVERY = 1.0
"""Seconds between questions for how many responses are there."""
REMIND_EVERY = 1.0
"""Seconds after which those who train though the rollout is complete are told again to stop."""


@dataclass(frozen=True)
class Rollout:
    """Completions in the order of the requests' ids. ``sessions``: the drafter training in the tail, by worker. ``ended``: when the last
    worker was done; ``stopped``: when nobody trained any more. ``untrained``: why nobody did at all, None if somebody did. ``notice``:
    what users should know of it, if anything. ``worker_tokens``: what each worker generated. ``drafter_gain``: see ``DrafterVersions``."""

    completions: list[Completion]
    statistics: RolloutStatistics
    spans: tuple[ActivitySpan, ...]
    sessions: Mapping[int, TrainedSession]
    ended: float
    stopped: float
    untrained: str | None = None
    notice: str | None = None
    worker_tokens: Mapping[int, int] = field(default_factory=dict)
    drafter_gain: float = 1.0

    def seconds(self, *activities: str) -> float:
        """Worker seconds spent in any of ``activities``."""
        return sum(self._by_worker(activities).values())

    def longest(self, *activities: str) -> float:
        """Of the worker that spent most seconds in any of ``activities``."""
        return max(self._by_worker(activities).values(), default=0.0)

    def _by_worker(self, activities: Sequence[str]) -> Mapping[int, float]:
        seconds: dict[int, float] = defaultdict(float)
        for span in self.spans:
            seconds[span.worker] += (span.end - span.start) * (span.activity in activities)
        return seconds


def joined_rollouts(rollouts: Sequence[Rollout]) -> Rollout:
    """Rollouts of one step, one after the other, as one."""
    whole = rollouts[0]
    for rollout in rollouts[1:]:
        whole.statistics.add(rollout.statistics)
        sessions = {worker: after(whole.sessions.get(worker), session) for worker, session in rollout.sessions.items()}
        whole = replace(
            rollout,
            completions=whole.completions + rollout.completions,
            statistics=whole.statistics,
            spans=whole.spans + rollout.spans,
            sessions={**whole.sessions, **sessions},
            untrained=rollout.untrained if whole.untrained else None,
            notice=rollout.notice or whole.notice,
            worker_tokens=Counter(whole.worker_tokens) + Counter(rollout.worker_tokens),
        )
    return whole


class RolloutDriver:
    """Runs the rollout of RL step ``step``; workers train under the conditions of ``state``. It is cut short once ``quota`` groups are
    complete. ``watch``: see ``Worker.rollout``; ``told``: questions that a worker was said to fail at, which alarms need not repeat;
    ``on_responses`` hears now and then how many responses are there. ``infer`` begins the inference of groups on a worker that is done
    while others are not, see ``TailInference``; it trains after its own ones."""

    def __init__(
        self,
        step: int,
        actors: Sequence[Any],
        state: RolloutState,
        quota: int | None = None,
        watch: bool = True,
        told: set[tuple[int, str]] | None = None,
        on_responses: Callable[[int], None] | None = None,
        infer: Callable[[int, Sequence[Completion]], Any] | None = None,
    ) -> None:
        self._step = step
        self._actors = actors
        self._state = state
        self._watch = watch
        self._failing = set() if told is None else told
        self._generating: dict[Any, int] = {}
        self._training: dict[Any, int] = {}
        self._asked: dict[Any, int] = {}
        self._told = 0.0
        self._stop = None if quota is None else EarlyStop(step, actors, quota, _control)
        self._on_responses = on_responses
        self._inference = TailInference(step, actors, infer, _control)
        self._counting: dict[Any, int] = {}
        self._counted: dict[int, int] = {}
        self._count_at = 0.0
        self._sessions: dict[int, TrainedSession] = {}
        self._refusals: list[Refusal] = []
        self._completions: list[Completion] = []
        self._statistics = RolloutStatistics()
        self._tokens: dict[int, int] = {}
        self._ended = 0.0
        self._now = 0.0
        self._neighbours: Neighbours | None = None

    def run(
        self,
        shares: Sequence[Sequence[Request]],
        sampling: Sampling,
        on_share: Callable[[Sequence[Completion]], None],
        ahead: Sequence[Sequence[Request]] = (),
    ) -> Rollout:
        """Generates ``shares``, one a worker; returns once all are done and nobody trains any more. ``on_share`` runs in a thread. What is
        ``ahead``, if anything, the workers go on with: until then they are BUSY.

        A training that fails costs the rollout nothing, nor does a worker's answer to how far it is: an alarm tells of it.
        WorkerLostError if a worker dies: the update needs all of them, so that the step could not go on without it.
        """
        self._post(coordinator.RolloutStarted(self._step, tuple(range(len(self._actors)))))
        for worker, (actor, share) in enumerate(zip(self._actors, shares, strict=True)):
            more = ahead[worker : worker + 1]  # none where nobody generates ahead
            self._generating[actor.rollout.remote(self._step, share, sampling, self._watch, *more)] = worker
        with ThreadPoolExecutor(1) as scorer:
            scored: list[Future[None]] = []
            while self._generating or self._training:
                completions = self._next()
                if completions:
                    scored.append(scorer.submit(on_share, completions))
            self._tell_neighbours()  # those who go on ahead, that it is over
            stopped = time.time()
            for future in scored:
                future.result()
        self._completions.sort(key=lambda completion: completion.request.id)
        reason = None if self._sessions else untrained_reason(self._state, self._refusals)
        times = self._ended, stopped
        spans = tuple(with_inference(self._state.spans, self._inference.spans()))
        return Rollout(self._completions, self._statistics, spans, self._sessions, *times, reason, worker_tokens=self._tokens)

    def _next(self) -> Sequence[Completion]:
        """Waits for one reply and passes it on, or repeats what was left unanswered; the completions, if it is a share's."""
        import ray  # late: ray reads the settings of ``ray_session`` when it is imported

        self._remind()
        self._tell_neighbours()
        counted = self._stop.asked if self._stop else {}
        inference = self._inference
        self._count()
        quiet = ASK_EVERY if self._asking else REMIND_EVERY if self._state.complete else COUNT_EVERY if self._on_responses else None
        beside = [*self._asked, *counted, *self._counting, *inference.asked]
        waited = [*self._generating, *inference.inferring, *self._training, *beside]
        ready, _ = ray.wait(waited, num_returns=1, timeout=quiet)
        for reference in ready:
            if reference in self._generating:
                return self._finished(self._generating.pop(reference), reference)
            if reference in inference.inferring:
                self._inferred(inference.inferred(reference))
            elif reference in self._training:
                self._trained(self._training.pop(reference), reference)
            elif reference in inference.asked:
                group = self._answer("complete group", inference.asked[reference][0], reference)
                inference.answered(reference, group or (), self._idle)
            elif reference in self._counting:
                self._responses(self._counting.pop(reference), reference)
            elif self._stop and reference in counted:
                self._stop.answered(reference, self._answer("complete groups", counted[reference], reference) or 0)
            else:
                worker = self._asked.pop(reference)
                if (seconds := self._answer("forecast", worker, reference)) is not None:
                    self._post(coordinator.Forecast(self._step, worker, seconds))
        return ()

    def _count(self) -> None:
        """Asks those who generate how many responses they have, after a while."""
        if self._on_responses and time.monotonic() >= self._count_at and not self._counting:
            asked = {worker: _control(self._actors[worker].finished_responses) for worker in self._generating.values()}
            self._counting = {method.remote(self._step): worker for worker, method in asked.items()}
            self._count_at = time.monotonic() + COUNT_EVERY

    def _responses(self, worker: int, reference: Any) -> None:
        told = self._answer("finished responses", worker, reference)
        if self._on_responses and told is not None and worker in self._generating.values():
            self._counted[worker] = told
            self._on_responses(sum(self._counted.values()))

    def _finished(self, worker: int, reference: Any) -> Sequence[Completion]:
        with said():
            share = self._get(worker, reference)
        self._counted[worker] = len(share.completions)
        if self._on_responses:
            self._on_responses(sum(self._counted.values()))
        if self._stop:
            self._stop.done(worker, share.completions)
        self._inference.done(worker, share.completions, last=not self._generating)
        self._post((coordinator.WorkerAhead if share.goes_on else coordinator.WorkerDone)(self._step, worker))
        self._ended = time.time()
        self._statistics.add(share.statistics)
        self._tokens[worker] = share.statistics.tokens
        self._completions.extend(share.completions)
        completions: Sequence[Completion] = share.completions
        return completions

    def _inferred(self, worker: int) -> None:
        if worker in self._training.values():
            self._post(coordinator.TrainingStarted(self._step, worker))

    def _trained(self, worker: int, reference: Any) -> None:
        from ray.exceptions import RayTaskError

        try:
            session = self._get(worker, reference)
            if session is not None:
                self._sessions[worker] = session
            else:  # it is told to stop only once the rollout is complete
                self._refusals.append("too late" if self._state.complete else "no data")
        except RayTaskError as error:
            message = f"worker {worker} failed to train the drafter, which stays as it was: {error.cause!r}"
            self._statistics.alarms.append(("drafter_training_failed", message))
            self._refusals.append("failed")
        self._post(coordinator.TrainingStopped(self._step, worker))

    def _answer(self, question: str, worker: int, reference: Any) -> Any:
        """What the worker says of how far it is; None if it fails at that. It is asked again, but told of once."""
        from ray.exceptions import RayTaskError

        try:
            return self._get(worker, reference)
        except RayTaskError as error:
            if (worker, question) not in self._failing:
                message = f"worker {worker} cannot say how far it is ({question}), so that less is made of tails: {error.cause!r}"
                self._statistics.alarms.append(("progress_unknown", message))
            self._failing.add((worker, question))
            return None

    def _get(self, worker: int, reference: Any) -> Any:
        import ray

        with lost(f"in the rollout of step {self._step}: worker {worker}"):
            return ray.get(reference)

    @property
    def _asking(self) -> bool:
        return bool(self._state.doubtful or (self._stop and self._generating) or self._inference.waiting(self._idle))

    @property
    def _idle(self) -> set[int]:
        """Workers that are done and not to train, while others generate."""
        if not self._generating or self._state.undecided:
            return set()
        return set(range(len(self._actors))).difference(self._generating.values(), self._training.values())

    def _remind(self) -> None:
        """Asks for forecasts that training waits for and for what is complete, and repeats halts, each after a while."""
        self._inference.remind(self._idle, self._generating.values())
        now = time.monotonic()
        if self._asking and now >= self._told + ASK_EVERY:
            if self._stop:
                self._stop.remind(self._generating.values())
            for worker in set(self._state.doubtful) - set(self._asked.values()):
                self._asked[_control(self._actors[worker].forecast).remote()] = worker
            self._told = now
        if self._state.complete and now >= self._told + REMIND_EVERY:
            for command in coordinator.reminders(self._state):
                self._carry_out(command)
            self._told = now

    def _post(self, event: coordinator.WorkerMessage) -> None:
        self._now = max(self._now, time.time())  # the machine's clock may be set back
        self._state, commands = coordinator.advance(self._state, event, self._now)
        for command in commands:
            self._carry_out(command)

    def _tell_neighbours(self) -> None:
        """Those who generate hear what those who are done do, whenever that changes."""
        neighbours = neighbours_of(self._state, bool(self._inference.inferring))
        if neighbours == self._neighbours:
            return
        self._neighbours = neighbours
        for worker in [number for number, each in self._state.workers.items() if each.phase in (Phase.BUSY, Phase.AHEAD)]:
            _control(self._actors[worker].beside).remote(self._step, neighbours)

    def _carry_out(self, command: Command) -> None:
        actor = self._actors[command.worker]
        if isinstance(command, StartTraining):
            self._training[actor.train_drafter.remote(command.epoch)] = command.worker
            if command.worker not in self._inference.inferring.values():
                self._post(coordinator.TrainingStarted(command.epoch, command.worker))
        else:
            _control(actor.halt).remote(command.epoch)


def neighbours_of(state: RolloutState, inferring: bool) -> Neighbours | None:
    """Of each who generates; None if nobody is done, or if some who are compute anything else than training."""
    phases = [worker.phase for worker in state.workers.values()]
    busy = phases.count(Phase.BUSY)
    if inferring or busy in (0, len(phases)) or Phase.AHEAD in phases:
        return None
    return Neighbours("training" if Phase.TRAINING in phases else "waiting", busy - 1)


def _control(method: Any) -> Any:
    """``method`` beside what the actor does, not after it."""
    return method.options(concurrency_group="control")
