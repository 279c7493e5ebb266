"""The state of a run's scheduling, from step to step."""

from collections.abc import Sequence
from statistics import StatisticsError, correlation
from typing import Any

from engine.config import RunConfig
from engine.experience.partial_rollouts import Backlog
from engine.experience.response_lengths import ResponseLengthPredictor
from engine.rollout.interface import Completion, Request


class SchedulingState:
    """With all switches off there is nothing in it."""

    def __init__(self, config: RunConfig) -> None:
        self._longest_first = config.rollout.scheduling.longest_first
        self._lengths = ResponseLengthPredictor()
        self.backlog = Backlog(config.algorithm.group_size, config.rollout.max_new_tokens)

    def expected(self, requests: Sequence[Request]) -> list[float] | None:
        """Tokens that each is predicted to need still, if somebody wants to know. Who outlived what was predicted may do so for long."""
        if not self._longest_first:
            return None
        begun = [len(request.begun.tokens) for request in requests]
        return [max(self._lengths.expected(request.prompt) - tokens, tokens / 4) for request, tokens in zip(requests, begun, strict=True)]

    def learn(self, completions: Sequence[Completion]) -> dict[str, float]:
        """A step's finished responses. ``forecast_correlation``: of their lengths with what was predicted."""
        if not self._longest_first:
            return {}
        answered = [(completion.request.prompt, len(completion.tokens)) for completion in completions if completion.finish != "abort"]
        predicted = [self._lengths.expected(prompt) for prompt, _ in answered]
        self._lengths.learn(answered)
        return {"forecast_correlation": _correlation(predicted, [length for _, length in answered])}

    def state(self) -> dict[str, Any]:
        """For a checkpoint; plain JSON values."""
        return {"lengths": self._lengths.state(), "backlog": self.backlog.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        self._lengths.load_state(state["lengths"])
        self.backlog.load_state(state["backlog"])


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """0 where one of them is constant."""
    try:
        return correlation(one, other)
    except StatisticsError:
        return 0.0
