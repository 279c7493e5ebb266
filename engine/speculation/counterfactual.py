"""What the decode steps of a rollout would have taken otherwise: plainly, or without the learned drafter.

The tokens are the same whatever drafts, so that only seconds differ. Plainly every running request gets one token a step, so the lengths of
the responses say which steps there would have been (``plain_steps``); the measured cost table, as the tuner corrects it, says what they
take. Where a rollout is cut off, or a full cache lets responses wait again, its own steps count, each with the tokens that it brought a
request in the mean. Steps that did without drafts count as long as they took.

Without the learned drafter it is the faster of plain decoding and n-grams. These are taken to find a draft at every step, which they do
not, and to be accepted as often as the tuner has seen, which seldom tries them. ``bench e2e`` says how far off that is.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from engine.speculation.plain_steps import LENGTHS, Steps, plain_steps
from engine.speculation.strategy import OFF, Context, Strategy

DRAFTERS = ("none", "ngram", "eagle")


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
    """Notes responses and decode steps until ``take``."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[int, int, Sequence[int]]] = {}
        self._begin()

    def _begin(self) -> None:
        self._seconds = dict.fromkeys(DRAFTERS, 0.0)
        self._tokens = _no_steps()
        self._plain: Steps = defaultdict(float)
        self._begin_rollout()

    def _begin_rollout(self) -> None:
        self._of_rollout = _no_steps()
        self._lengths: dict[int, tuple[int, int]] = {}
        self._most, self._whole = 0, not self._running

    def admit(self, request: int, prompt: Sequence[int], written: Sequence[int]) -> None:
        """``written`` grows as the request's tokens are generated."""
        self._running[request] = len(prompt) + len(written), len(written), written
        self._lengths[request] = (0, 0)

    def leave(self, request: int, finished: bool) -> None:
        """Not ``finished`` is what was aborted, or waits for another rollout."""
        length, begun, written = self._running.pop(request)
        self._lengths[request] = length, len(written) - begun
        self._whole &= finished

    def end_rollout(self) -> None:
        """What is admitted from now on would not have waited for what was there before."""
        whole = self._whole and not self._running
        parts = [plain_steps(list(self._lengths.values()), self._most)] if whole else self._of_rollout.values()
        for steps in parts:
            _add(self._plain, steps)
        for drafter, steps in self._of_rollout.items():
            _add(self._tokens[drafter], steps)
        self._begin_rollout()

    def record(self, drafter: str, context: Context, kept: Sequence[int], seconds: float) -> None:
        """A step in which ``drafter`` drafted brought the requests ``kept`` tokens."""
        self._most = max(self._most, context.batch)
        self._whole &= len(self._running) <= context.batch  # else one waits again, as the cache is full
        self._seconds[drafter] += seconds
        self._of_rollout[drafter][context.batch, int(context.length) // LENGTHS] += sum(kept) / len(kept)

    def take(self, tuner: Knowledge, strategies: Sequence[Strategy]) -> DecodeSeconds | None:
        """Of the steps since the last call, by what ``tuner`` knows now; None if there were none."""
        self.end_rollout()
        seconds, tokens, plain = self._seconds, self._tokens, self._plain
        self._begin()
        spent = sum(seconds.values())
        if not spent:
            return None
        unlearned = [strategy for strategy in strategies if strategy.drafter == "ngram"]
        one_by_one = {drafter: _predicted(steps, tuner, [OFF]) for drafter, steps in tokens.items()}
        drafted = max(_predicted(plain, tuner, [OFF]) - one_by_one["none"], 0.0)
        uneven = drafted / max(one_by_one["ngram"] + one_by_one["eagle"], 1e-9)
        ngram = uneven * _predicted(tokens["eagle"], tuner, [OFF, *unlearned])
        return DecodeSeconds(spent, seconds["eagle"], seconds["none"] + drafted, seconds["none"] + seconds["ngram"] + ngram)


def _no_steps() -> dict[str, Steps]:
    return {drafter: defaultdict(float) for drafter in DRAFTERS}


def _add(steps: Steps, others: Steps) -> None:
    for moment, count in others.items():
        steps[moment] += count


def _predicted(steps: Steps, tuner: Knowledge, strategies: Sequence[Strategy]) -> float:
    """Seconds until all of ``steps`` have their tokens, each by the fastest of ``strategies``."""
    rates = {strategy: 1 + tuner.expected(strategy) for strategy in strategies}
    total = 0.0
    for (batch, lengths), tokens in steps.items():
        context = Context(batch, (lengths + 0.5) * LENGTHS)
        total += tokens * min(tuner.seconds(strategy, context) / rate for strategy, rate in rates.items())
    return total
