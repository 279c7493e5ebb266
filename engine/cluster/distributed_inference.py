"""Inference over all ranks of the learner: what is left of it after a rollout, and what those who were done did in its tail.

A group is computed by itself, so that its log-probs are the same to the bit whoever computes them, and when. In the tail inference comes
before training: what it saves is certain, for all would wait for it afterwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.config import RunConfig
from engine.policy.algorithms.credit_assignment import looked_up, training_rows
from engine.policy.training.row_shares import row_shares, shares_of, tokens_of
from engine.policy.training.training_row import Inferred, TrainingRow, alike
from engine.rollout.interface import Completion, Request


@dataclass(frozen=True)
class InferenceCall:
    """``rank`` was asked for the rows of these ``requests``, which have so many ``tokens``."""

    rank: int
    requests: tuple[int, ...]
    tokens: int


class DistributedInference:
    """Of one step after the other. ``early``: whether some of it can be done in the tail; it can if what is looked up is known without the
    rewards, as for a KL term, and if no rank needs the others for it."""

    def __init__(self, config: RunConfig, ranks: Sequence[Any], ray: Any, get: Callable[[Any], Any]) -> None:
        """``ranks``: actors, those of a worker one after the other; ``get``: from references to results."""
        self._config, self._ranks, self._ray, self._get = config, ranks, ray, get
        self._by_group = config.cluster.learner.parallel == "ddp"
        self.early = self._by_group and config.algorithm.kl_coefficient > 0
        self._calls: dict[Any, InferenceCall] = {}

    def begin(self, worker: int, completions: Sequence[Completion]) -> Any:
        """Asks ``worker`` for whole groups; the call's reference. Their responses go in the order of ``finish``, whichever ended first: on
        it depends which of them are computed together."""
        completions = sorted(completions, key=lambda completion: completion.request.id)
        rows = training_rows(self._config, completions)
        requests = [completion.request for completion in completions]
        return self._ask(worker * self._config.rollout.gpus, rows, requests, looked_up(self._config.algorithm, rows))

    def finish(self, rows: Sequence[TrainingRow], requests: Sequence[Request]) -> list[Inferred] | None:
        """What ``Learner.infer`` says of the rows that are ``looked_up``, and nothing of the others, in their order, which is that of their
        ``requests``; None if nobody needs it. To be called with advantages, unless they come of it."""
        if not self._config.algorithm.needs_inference:
            return None
        begun = {request for call in self._calls.values() for request in call.requests}
        left = [index for index in looked_up(self._config.algorithm, rows) if requests[index].id not in begun]
        for rank, share in enumerate(self._shares(rows, requests, left)):
            self._ask(rank, rows, requests, share)
        calls, self._calls = self._calls, {}
        found: dict[int, Inferred] = {}
        for call, inferred in zip(calls.values(), self._get([*calls]), strict=True):
            found |= zip(call.requests, inferred, strict=True)
        return [found.get(request.id, Inferred()) for request in requests]

    def _ask(self, rank: int, rows: Sequence[TrainingRow], requests: Sequence[Request], chosen: Sequence[int]) -> Any:
        groups = [requests[index].group for index in chosen] if self._by_group else None
        call = self._ranks[rank].infer.remote([rows[index] for index in chosen], groups)
        self._calls[call] = InferenceCall(rank, tuple(requests[index].id for index in chosen), tokens_of(rows, chosen, set(chosen)))
        return call

    def _shares(self, rows: Sequence[TrainingRow], requests: Sequence[Request], left: Sequence[int]) -> list[list[int]]:
        computed = frozenset(left)
        if not self._by_group:
            shared = self._config.cluster.learner.packed is not False
            return [[index for index in share if index in computed] for share in row_shares(rows, len(self._ranks), computed, shared)]
        groups = [[left[place] for place in members] for members in alike([requests[index].group for index in left])]
        return shares_of(rows, groups, len(self._ranks), computed, self._busy())

    def _busy(self) -> list[int]:
        """Tokens that each rank still computes with."""
        references = [*self._calls]
        answered = self._ray.wait(references, num_returns=len(references), timeout=0)[0] if references else ()
        tokens = [0] * len(self._ranks)
        for reference in set(references).difference(answered):
            tokens[self._calls[reference].rank] += self._calls[reference].tokens
        return tokens
