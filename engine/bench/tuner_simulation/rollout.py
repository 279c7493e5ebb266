"""A rollout on a simulated machine, decode step by decode step, as the native engine has its speculator decide."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import numpy as np

from engine.bench.tuner_simulation.drafts import Skill, Text
from engine.config import DrafterName
from engine.planner.simulation.decode_costs import catch_up
from engine.speculation.elastic_switch import ElasticSwitch
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.cost_table import CostTable

THRESHOLD, HYSTERESIS = 64, 4
PROMPT = 64
LONGEST_PAUSE = 16
"""Of n-grams, as in the speculator."""


class Chooser(Protocol):
    """Decides a step, and learns from it. ``skill`` is for those only who know all."""

    def choose(self, context: Context, skill: Skill) -> Strategy: ...
    def learn(self, strategy: Strategy, context: Context, accepted: Sequence[int], seconds: float) -> None: ...


@dataclass
class Rollout:
    """``lengths`` of all responses; ``slots`` of them run at a time. ``factors``: how much longer steps take than ``costs`` say."""

    costs: CostTable
    lengths: np.ndarray
    slots: int
    text: Text
    skill: Skill
    factors: np.ndarray
    _pause: int = field(default=1, init=False)
    _paused: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.written, self.seen = np.zeros(len(self.lengths), int), np.zeros(len(self.lengths), int)
        self.switch = ElasticSwitch(THRESHOLD, HYSTERESIS)

    def run(self, chooser: Chooser, version: int) -> float:
        """Seconds to the end of the last response, without noise. All weights are of ``version``."""
        started = min(self.slots, len(self.lengths))
        running, seconds, step = np.arange(started), 0.0, 0
        while len(running):
            context = self._context(running, version)
            chosen = OFF if context.drafters == {"none"} else chooser.choose(context, self.skill)
            strategy = OFF if chosen.drafter == "ngram" and not self._ngrams_pay(chosen, running, context) else chosen
            accepted = self.text.accepted(strategy, self.skill, running, self.written[running])
            kept = np.minimum(1 + accepted, self.lengths[running] - self.written[running])
            took = self._seconds(strategy, running, context)
            if strategy.drafter == "eagle":
                self.seen[running] = self.written[running]
            self.written[running] += kept
            seconds, step = seconds + took, step + 1
            chooser.learn(strategy, context, (kept - 1).tolist(), took * float(self.factors[step % len(self.factors)]))
            going = self.written[running] < self.lengths[running]
            more = min(int((~going).sum()), len(self.lengths) - started)
            running, started = np.append(running[going], np.arange(started, started + more)), started + more
        return seconds

    def _seconds(self, strategy: Strategy, running: np.ndarray, context: Context) -> float:
        """Of a step without noise; a drafter that was out of use catches up in it."""
        behind = int((self.written[running] - self.seen[running]).max()) if strategy.drafter == "eagle" else 0
        return self.costs.seconds(strategy, context) + (catch_up(self.costs, context, behind) if behind else 0.0)

    def _ngrams_pay(self, strategy: Strategy, running: np.ndarray, context: Context) -> bool:
        """Drafts that would not are none, and are not looked for again at once."""
        found = self.text.found(self.skill, running, self.written[running]).mean()
        faster = self.costs.seconds(OFF, context) * (1 + found * self.skill.expected(strategy) / self.skill.found)
        pays = bool(faster > self.costs.seconds(strategy, context))
        if pays:
            self._pause = 1
        else:
            self._paused, self._pause = self._pause, min(2 * self._pause, max(1, len(running) // 4), LONGEST_PAUSE)
        return pays

    def _context(self, running: np.ndarray, version: int) -> Context:
        allowed, ngrams = self.switch.update(len(running)), self._paused <= 0
        self._paused -= 1
        drafters: set[DrafterName] = {"none", "eagle"} if allowed else {"none"}
        if allowed and ngrams:
            drafters.add("ngram")
        return Context(len(running), PROMPT + float(self.written[running].mean()), version, version, frozenset(drafters))


def best_arm(arms: Sequence[Strategy], costs: CostTable) -> Callable[[Context, Skill], Strategy]:
    """Of highest mean rate, for one who knows all."""

    @cache
    def among(batch: int, length: float, drafters: frozenset[DrafterName], skill: Skill) -> Strategy:
        context, able = Context(batch, length), [arm for arm in arms if arm.drafter in drafters]
        return max(able, key=lambda arm: (1 + skill.expected(arm)) / costs.seconds(arm, context))

    return lambda context, skill: among(context.batch, round(context.length, -2), frozenset(context.drafters), skill)
