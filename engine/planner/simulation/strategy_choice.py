"""What the engine's own tuner does in a simulated rollout: its choices, by number of running requests.

One tuner stands for those of all workers, which see the same costs and the same drafter. It decides live decode steps while the batch
falls from full to one, as in a rollout, and learns from them; what it does in the later half of them is what it does at that batch.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.config import DrafterName, SpeculationConfig
from engine.events import ArmStatistics
from engine.planner.calibration import Acceptance
from engine.planner.simulation.acceptance import accepted_tokens, rates
from engine.planner.simulation.decoding import Pace
from engine.speculation.elastic_switch import ElasticSwitch
from engine.speculation.remaining_length import RemainingLengthPredictor
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.cost_table import CostTable
from engine.speculation.tuner.factory import build_tuner

LIVE = 32
"""Decode steps at each batch size that the tuner decides one by one."""
NOISE = 0.05
"""Standard deviation of the log of a step's time."""
REMEMBERED = 512
"""Lengths of a step that the predictor of remaining lengths is told of, at most."""
FAR = 32_768
NEAR = 1024
"""Known tokens at which a step's costs are looked up, of long responses: between and beyond they are on a line. Of shorter ones they are
the limit, and as small a part of it, so that what is far beyond it does not count."""
SHORTEST = 64


@dataclass(frozen=True)
class Choice:
    """Shares of decode steps by strategy."""

    shares: dict[Strategy, float]

    @property
    def label(self) -> str:
        return str(max(self.shares, key=self.shares.__getitem__))


class StrategyChoice:
    """Of one run: what was learnt goes on from step to step."""

    def __init__(self, config: SpeculationConfig, costs: CostTable, acceptance: Acceptance, slots: int, limit: int, seed: int) -> None:
        self._config, self._costs, self._acceptance, self._limit = config, costs, acceptance, limit
        self._tuner = build_tuner(config, seed, costs)
        self._lengths = RemainingLengthPredictor()
        self._rng = np.random.default_rng((seed, 1))
        self._far = min(FAR, max(limit, 2 * SHORTEST))
        self._near = max(SHORTEST, self._far * NEAR // FAR)
        self._slots = slots
        self._known: dict[tuple[Strategy, int], tuple[float, float]] = {}

    def plain(self) -> list[Choice]:
        """Without speculation, by batch size [slots + 1]."""
        return [Choice({OFF: 1.0})] * (self._slots + 1)

    def tuned(
        self, first: float, learned: bool, versions: tuple[int, int], lengths: Sequence[int], known: float, most: int
    ) -> list[Choice]:
        """By batch size [slots + 1]. ``first``: see ``acceptance.rates``; ``learned``: whether there is a drafter; ``versions`` of target
        and drafter; ``lengths`` of the step's responses, after ``known`` tokens of a prompt; ``most`` of them that a worker has."""
        most = max(1, min(most, self._slots))
        switch = ElasticSwitch(self._config.threshold, self._config.hysteresis)
        ordered = np.sort(np.asarray(lengths))
        allowed = {batch: switch.update(batch) for batch in range(self._slots, 0, -1)}
        chosen: dict[int, Choice] = {}
        for batch in reversed(_grid(most)):
            if not allowed[batch]:
                continue
            share = max(0, len(ordered) - 1 - batch * len(ordered) // most)
            context = self._context(batch, float(ordered[share]), known, learned, versions)
            chosen[batch] = self._live(context, first)
        self._lengths.new_step()
        for length in ordered[:: max(1, len(ordered) // REMEMBERED)].tolist():
            self._lengths.finished(0, length)
        near = np.array(sorted(chosen) or [1])
        plain = Choice({OFF: 1.0})
        return [plain] + [
            chosen[int(near[np.abs(np.log(near / batch)).argmin()])] if allowed[batch] and chosen else plain
            for batch in range(1, self._slots + 1)
        ]

    def pace(self, choices: Sequence[Choice], first: float, prefill: float) -> Pace:
        """Seconds a token of these choices."""
        fixed, slope, switching = (np.zeros(self._slots + 1) for _ in range(3))
        drafting = False
        for batch in range(self._slots, 0, -1):
            shares = choices[batch].shares
            tokens = sum(share * (1 + accepted_tokens(strategy, self._acceptance, first)) for strategy, share in shares.items())
            for strategy, share in shares.items():
                low, high = self._step_seconds(strategy, batch)
                rise = (high - low) / (self._far - self._near)
                fixed[batch] += share * (low - rise * self._near) / tokens
                slope[batch] += share * rise / tokens
            drafts = any(strategy.drafter == "eagle" for strategy in shares)
            if drafts and not drafting:
                switching[batch] = self._costs.catch_up(Context(batch, NEAR, behind=NEAR))
            drafting = drafts
        return Pace(fixed, slope, prefill, switching)

    def take_arms(self) -> list[ArmStatistics]:
        """Those of the live steps."""
        return self._tuner.take_arms()

    def _context(self, batch: int, generated: float, known: float, learned: bool, versions: tuple[int, int]) -> Context:
        drafters: set[DrafterName] = {"none"}
        if learned:
            drafters.add("eagle")
        if self._config.suffix.enabled:
            drafters.add("ngram")
        horizon = self._lengths.outlook(generated, self._limit)
        return Context(batch, known + generated, *versions, frozenset(drafters), horizon)

    def _live(self, context: Context, first: float) -> Choice:
        used: Counter[Strategy] = Counter()
        for step in range(LIVE):
            strategy = self._tuner.select(context)
            accepted = self._accepted(strategy, context.batch, first)
            if strategy.drafter == "ngram" and not accepted.any():
                strategy = OFF  # nothing was found to draft from
            elapsed = self._costs.seconds(strategy, context) * float(np.exp(NOISE * self._rng.standard_normal()))
            self._tuner.record(strategy, context, accepted.tolist(), elapsed)
            if step >= LIVE // 2:
                used[strategy] += 1
        return Choice({strategy: count / used.total() for strategy, count in used.items()})

    def _accepted(self, strategy: Strategy, batch: int, first: float) -> np.ndarray:
        reached = np.cumprod(rates(strategy, self._acceptance, first)) if strategy != OFF else np.zeros(0)
        found: np.ndarray = (self._rng.random((batch, 1)) < reached).sum(1)
        return found

    def _step_seconds(self, strategy: Strategy, batch: int) -> tuple[float, float]:
        """With requests of few and of many known tokens."""
        if (strategy, batch) not in self._known:
            near, far = (self._costs.seconds(strategy, Context(batch, length)) for length in (self._near, self._far))
            self._known[strategy, batch] = near, far
        return self._known[strategy, batch]


def _grid(most: int) -> list[int]:
    """Batch sizes of which the others are near: two for each doubling."""
    return sorted({round(2 ** (power / 2)) for power in range(1 + 2 * most.bit_length())} & set(range(1, most + 1)) | {most})
