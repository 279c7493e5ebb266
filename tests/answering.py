"""A worker group whose rollouts answer at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from engine.cluster.distributed_rollout.coordinator import ActivitySpan
from engine.cluster.distributed_rollout.driver import Rollout
from engine.cluster.spot_training.trained_session import TrainedSession
from engine.config import RunConfig
from engine.experience.scheduling_state import SchedulingState
from engine.rollout.interface import Completion, Request, RolloutStatistics, Sampling
from engine.tasks.task import Prompt

SEED = 3


class Answering(ABC):
    """Of a run with seed SEED. Rollout n takes from n to n + 1; ``asked``: the requests of each."""

    def __init__(self, config: RunConfig) -> None:
        self.schedule = SchedulingState(config)
        self.asked: list[list[Request]] = []

    def rollout(
        self,
        step: int,
        requests: Sequence[Request],
        sampling: Sampling,
        on_share: Callable[[Sequence[Completion]], None],
        expected: Sequence[float] | None,
        quota: int | None = None,
        ahead: Sequence[Request] = (),
    ) -> Rollout:
        """That of ``WorkerGroup``; nothing of what is ``ahead`` is generated."""
        assert sampling.seed == SEED
        assert expected is None or len(expected) == len(requests) + len(ahead)
        self.asked.append(list(requests))
        completions = self.answers(step, requests, quota)
        on_share(completions)
        now = float(len(self.asked))
        spans = (ActivitySpan(0, "BUSY", now, now + 1),)
        return Rollout(completions, RolloutStatistics(tokens=len(completions)), spans, self.sessions(now), now, now)

    @abstractmethod
    def answers(self, step: int, requests: Sequence[Request], quota: int | None) -> list[Completion]: ...

    def sessions(self, now: float) -> dict[int, TrainedSession]:  # noqa: ARG002
        """The drafter's training in the rollout that begins at ``now``."""
        return {}


class Lengths:
    """Prompt ``position`` wants ``wanted[position]`` tokens, by default one."""

    waits = False

    def __init__(self, wanted: dict[int, int]) -> None:
        self._wanted = wanted

    def prompts(self, step: int, count: int) -> list[Prompt]:
        positions = range(step * count, (step + 1) * count)
        return [Prompt(str(position), (self._wanted.get(position, 1),), position) for position in positions]

    def reward(self, prompt: Prompt, response: str) -> float:  # noqa: ARG002
        return float(prompt.data)
