"""A decode step that has begun: a GPU works on it while the host looks at the one before it, and begins the one behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from engine.rollout.native.sending import Received
from engine.rollout.response import Response


class Drawn(NamedTuple):
    """What a step brought one request: the ``accepted`` drafts, of ``drafted`` levels, and the target's own token, with their
    log-probabilities."""

    drafted: int
    accepted: int
    tokens: list[int]
    logprobs: list[float]


@dataclass(frozen=True)
class DecodeBatch:
    """``responses`` of a step; those behind the first ``real`` ones repeat the last. The device knows of their newest tokens the positions
    ``newest`` [n, 1], and of their ``requests`` the ids [n]. What the host knows of them may be older by ``unread`` tokens, at most."""

    responses: Sequence[Response]
    real: int
    newest: Tensor
    requests: Tensor
    unread: int = 0

    @property
    def lengths(self) -> list[int]:
        """Known tokens, at most."""
        return [response.length + self.unread for response in self.responses]


class Step:
    """One that may still run on the GPU."""

    def __init__(self, batch: DecodeBatch, outcome: Tensor, accepted: Tensor | None = None) -> None:
        """``outcome`` [n, ...]: of each request a token and its log-probability. With the number of ``accepted`` drafts [n]: the levels of
        drafts, this number, ``most`` tokens, of which the first are those drafts and the target's own, and as many log-probabilities."""
        self._batch, self._accepted, self._received = batch, accepted, Received(outcome)
        self.most = 1 if accepted is None else outcome.shape[1] // 2 - 1
        """Tokens that it brings a request, at most."""
        self.caught_up = False
        """Whether the drafter has seen in it all before the newest tokens."""

    def following(self) -> DecodeBatch:
        """The batch after it. Repetitions of the last request have room for what that one has accepted, and not for what they have."""
        batch, newest = self._batch, self._batch.newest + 1
        if self._accepted is not None:
            accepted, repeated = self._accepted[: batch.real], len(newest) - batch.real
            newest = newest + (torch.cat((accepted, accepted[-1:].expand(repeated))) if repeated else accepted)[:, None]
        return DecodeBatch(batch.responses, batch.real, newest, batch.requests, self.most)

    def read(self) -> list[Drawn]:
        """What it brought each request, once it is there."""
        rows = self._received.take()[: self._batch.real]
        if self._accepted is None:
            return [Drawn(0, 0, [int(token)], [logprob]) for token, logprob in rows]
        return [self._drawn(int(levels), int(drafts), row) for levels, drafts, *row in rows]

    def _drawn(self, levels: int, drafts: int, row: list[float]) -> Drawn:
        count = drafts + 1
        return Drawn(levels, drafts, [int(token) for token in row[:count]], row[self.most : self.most + count])
