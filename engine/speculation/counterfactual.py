"""What the decode steps of a rollout would have taken otherwise: plainly, or without the learned drafter.

The tokens are the same whatever drafts, so that only seconds differ. Those of a step that did without drafts are its own. Those of others
are predicted: by the measured cost table as the tuner corrects it, for as many steps as bring the same tokens. Without the learned drafter
that is the faster of plain decoding and n-grams, as often accepted as the tuner has seen. N-grams are taken to find a draft at every step,
which they do not, so that the learned drafter brings rather more than this says.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from engine.speculation.strategy import OFF, Context, Strategy

LENGTHS = 128
"""Steps of one batch size are taken together if their mean lengths are alike up to so many tokens."""
Steps = dict[tuple[int, int], float]
"""Tokens that each request of a batch got, by batch size and length."""


class Knowledge(Protocol):
    """What a tuner knows of strategies."""

    def expected(self, strategy: Strategy) -> float:
        """Mean accepted tokens of a draft."""
        ...

    def seconds(self, strategy: Strategy, context: Context) -> float:
        """Of a decode step."""
        ...


class DecodeSeconds(NamedTuple):
    """Of a worker's decode steps: ``spent``, and the part of that in which the learned drafter drafted; ``plain`` and ``ngram``: what the
    same tokens would have taken plainly, and with n-grams at most."""

    spent: float
    learned: float
    plain: float
    ngram: float

    def plus(self, other: "DecodeSeconds") -> "DecodeSeconds":
        return DecodeSeconds(*(one + another for one, another in zip(self, other, strict=True)))


class Counterfactual:
    """Notes decode steps until ``take``."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._seconds = dict.fromkeys(("none", "ngram", "eagle"), 0.0)
        self._tokens: dict[str, Steps] = {drafter: defaultdict(float) for drafter in ("ngram", "eagle")}

    def record(self, drafter: str, context: Context, kept: Sequence[int], seconds: float) -> None:
        """A step in which ``drafter`` drafted brought the requests ``kept`` tokens."""
        self._seconds[drafter] += seconds
        if drafter != "none":
            self._tokens[drafter][context.batch, int(context.length) // LENGTHS] += sum(kept) / len(kept)

    def take(self, tuner: Knowledge, strategies: Sequence[Strategy]) -> DecodeSeconds | None:
        """Of the steps since the last call, by what ``tuner`` knows now; None if there were none."""
        seconds, tokens = self._seconds, self._tokens
        self._begin()
        spent = sum(seconds.values())
        if not spent:
            return None
        unlearned = [strategy for strategy in strategies if strategy.drafter == "ngram"]
        plain = {drafter: _predicted(steps, tuner, [OFF]) for drafter, steps in tokens.items()}
        ngram = _predicted(tokens["eagle"], tuner, [OFF, *unlearned])
        return DecodeSeconds(spent, seconds["eagle"], seconds["none"] + sum(plain.values()), seconds["none"] + seconds["ngram"] + ngram)


def _predicted(steps: Steps, tuner: Knowledge, strategies: Sequence[Strategy]) -> float:
    """Seconds until all of ``steps`` have their tokens, each by the fastest of ``strategies``."""
    rates = {strategy: 1 + tuner.expected(strategy) for strategy in strategies}
    total = 0.0
    for (batch, lengths), tokens in steps.items():
        context = Context(batch, (lengths + 0.5) * LENGTHS)
        total += tokens * min(tuner.seconds(strategy, context) / rate for strategy, rate in rates.items())
    return total
