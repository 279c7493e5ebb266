"""Which draft a request gets at a decode step: the one from its siblings' text or the learned one."""

from bisect import bisect_right
from typing import Any

from engine.speculation.ngram.suffix_store import Draft

_MATCHES = (5, 8, 12, 16, 24)  # where the second and later buckets begin
_CONFIDENCES = (0.3, 0.45, 0.6, 0.75, 0.85, 0.92)
_ROWS = [bisect_right(_MATCHES, match) * (len(_CONFIDENCES) + 1) for match in range(_MATCHES[-1] + 1)]
_PRIOR = 4.0  # observations that a token's confidence itself counts for
_KEPT = 1 - 1 / 128  # of the older observations of a bucket, at each new one
_FADED = 1 - 1 / 256  # of them, at each token turned down: in the end it gets a new trial


class DrafterSelector:
    """Measured acceptance of suffix drafts, by match length and confidence, against what the learned drafter promises.

    Token i of a draft is only looked at if the tokens before it were accepted: it then continues a match of ``match`` + i tokens.
    ``floor`` is the least chance of acceptance that is worth a place in the verification.
    """

    def __init__(self, floor: float = 0.15) -> None:
        self._floor = floor
        buckets = (len(_MATCHES) + 1) * (len(_CONFIDENCES) + 1)
        self._accepted = [0.0] * buckets
        self._seen = [0.0] * buckets

    def chances(self, draft: Draft) -> list[float]:
        """For each token the probability that it and all before it are accepted."""
        chances, chance = [], 1.0
        for length, confidence in enumerate(draft.confidence, draft.match):
            bucket = _bucket(length, confidence)
            chance *= (self._accepted[bucket] + _PRIOR * confidence) / (self._seen[bucket] + _PRIOR)
            chances.append(chance)
        return chances

    def offer(self, draft: Draft, learned: float) -> Draft:
        """The draft with its ``chances``, without the tail that is accepted too rarely; an empty one if it promises fewer tokens than
        ``learned``, which is expected of the learned draft. A tie goes to ``draft``: it is free."""
        chances = self.chances(draft)
        length = sum(chance >= self._floor for chance in chances)
        if sum(chances[:length]) < learned:
            length = 0
        return self.narrow(Draft(draft.tokens, draft.match, draft.confidence, tuple(chances)), length)

    def narrow(self, draft: Draft, length: int) -> Draft:
        """The first ``length`` tokens; the others are turned down."""
        if length >= len(draft.tokens):
            return draft
        for match, confidence in enumerate(draft.confidence[length:], draft.match + length):
            bucket = _bucket(match, confidence)
            self._accepted[bucket] *= _FADED
            self._seen[bucket] *= _FADED
        return draft.first(length) if length else Draft()

    def record(self, draft: Draft, accepted: int) -> None:
        """The target agreed with the first ``accepted`` tokens of ``draft``, and with no more of them.

        A draft that was turned down may be recorded as well, cut to the tokens that the step brought.
        """
        for position, confidence in enumerate(draft.confidence[: accepted + 1]):
            bucket = _bucket(draft.match + position, confidence)
            self._accepted[bucket] = _KEPT * self._accepted[bucket] + (position < accepted)
            self._seen[bucket] = _KEPT * self._seen[bucket] + 1

    def state(self) -> dict[str, Any]:
        """What was learnt, for a checkpoint; plain JSON values."""
        return {"accepted": list(self._accepted), "seen": list(self._seen)}

    def load_state(self, state: dict[str, Any]) -> None:
        self._accepted, self._seen = list(state["accepted"]), list(state["seen"])


def _bucket(match: int, confidence: float) -> int:
    return _ROWS[min(match, _MATCHES[-1])] + bisect_right(_CONFIDENCES, confidence)
