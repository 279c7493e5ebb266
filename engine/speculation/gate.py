"""Which draft a request gets at a decode step: the one from its siblings' text or the learned one."""

from bisect import bisect_right
from itertools import accumulate
from operator import mul
from typing import Any

from engine.speculation.suffix import Draft

_MATCHES = (5, 8, 12, 16, 24)  # where the second and later buckets begin
_CONFIDENCES = (0.3, 0.45, 0.6, 0.75, 0.85, 0.92)
_PRIOR = 4.0  # observations that a token's confidence itself counts for
_KEPT = 1 - 1 / 128  # of the older observations of a bucket, at each new one
_FADED = 1 - 1 / 256  # of them, at each token turned down: in the end it gets a new trial


class Gate:
    """Measured acceptance of suffix drafts, by match length and confidence, against what the learned drafter promises.

    Token i of a draft is only looked at if the tokens before it were accepted: it then continues a match of ``match`` + i tokens.
    ``floor`` is the least chance of acceptance that is worth a place in the verification.
    """

    def __init__(self, floor: float = 0.15) -> None:
        self._floor = floor
        buckets = (len(_MATCHES) + 1) * (len(_CONFIDENCES) + 1)
        self._accepted = [0.0] * buckets
        self._seen = [0.0] * buckets

    def expected(self, draft: Draft) -> float:
        """Expected number of accepted tokens."""
        return sum(self._reached(draft))

    def prefers_suffix(self, draft: Draft, learned: float) -> bool:
        """``learned``: expected accepted tokens of the learned draft, 0 if there is none. A tie goes to ``draft``: it is free."""
        if draft.tokens and self.expected(draft) >= learned:
            return True
        self._turn_down(draft, 0)
        return False

    def cut(self, draft: Draft) -> Draft:
        """The draft without the tail that is accepted too rarely."""
        length = sum(reached >= self._floor for reached in self._reached(draft))
        self._turn_down(draft, length)
        return draft.first(length)

    def record(self, draft: Draft, accepted: int) -> None:
        """The target agreed with the first ``accepted`` tokens of ``draft``, and with no more of them.

        A draft that was turned down may be recorded as well, cut to the tokens that the step brought.
        """
        for position in range(min(accepted + 1, len(draft.tokens))):
            bucket = _bucket(draft, position)
            self._accepted[bucket] = _KEPT * self._accepted[bucket] + (position < accepted)
            self._seen[bucket] = _KEPT * self._seen[bucket] + 1

    def state(self) -> dict[str, Any]:
        """What was learnt, for a checkpoint; plain JSON values."""
        return {"accepted": list(self._accepted), "seen": list(self._seen)}

    def load_state(self, state: dict[str, Any]) -> None:
        self._accepted, self._seen = list(state["accepted"]), list(state["seen"])

    def _reached(self, draft: Draft) -> list[float]:
        """For each token the probability that it and all before it are accepted."""
        return list(accumulate((self._acceptance(draft, position) for position in range(len(draft.tokens))), mul))

    def _turn_down(self, draft: Draft, first: int) -> None:
        for position in range(first, len(draft.tokens)):
            bucket = _bucket(draft, position)
            self._accepted[bucket] *= _FADED
            self._seen[bucket] *= _FADED

    def _acceptance(self, draft: Draft, position: int) -> float:
        bucket = _bucket(draft, position)
        return (self._accepted[bucket] + _PRIOR * draft.confidence[position]) / (self._seen[bucket] + _PRIOR)


def _bucket(draft: Draft, position: int) -> int:
    match = bisect_right(_MATCHES, draft.match + position)
    return match * (len(_CONFIDENCES) + 1) + bisect_right(_CONFIDENCES, draft.confidence[position])
