"""A speculator and a simulated batch."""

import random
from dataclasses import dataclass, field
from typing import Any

from engine.config import SpeculationConfig
from engine.speculation.speculator import Speculator, StepPlan
from engine.speculation.strategy import Strategy
from engine.speculation.tuner.cost_table import CostTable, Grid

CHAIN, SHORT, TREE = Strategy("eagle", 4, 1, 4), Strategy("eagle", 2, 1, 2), Strategy("eagle", 3, 2, 5)
NGRAM = Strategy("ngram", 6, 1, 6)
LIMIT = 10_000
# A step takes a unit, and a tenth of it for each request's each drafted token.
COSTS = CostTable(Grid((1, 64), (1, 65), (1,), [[[1.0], [7.4]], [[1.0], [410.6]]]), Grid((1,), (1,), (1,), [[[0.0]]]))


@dataclass
class Request:
    """A running request, ``length`` known tokens of which were ``generated`` and ``drafted`` seen by the drafter; of the text, the suffix
    store sees ``written``."""

    id: int
    group: int = 0
    length: int = 10
    generated: int = 5
    drafted: int = 0
    written: list[int] = field(default_factory=list)


def make(*strategies: Strategy, tuner: str = "fixed", costs: CostTable | None = None, suffix: bool = True, **changes: Any) -> Speculator:
    shapes = [{"drafter": s.drafter, "depth": s.depth, "top_k": s.top_k, "verify": s.verify} for s in strategies]
    given = {"strategies": shapes, "tuner": {"name": tuner}, "suffix": {"enabled": suffix}}
    speculator = Speculator(SpeculationConfig.model_validate(given | changes), 0, costs)
    speculator.begin(LIMIT)
    return speculator


def admitted(speculator: Speculator, count: int, groups: int = 1, prompt: tuple[int, ...] = (1, 2, 3)) -> list[Request]:
    batch = [Request(i, i % groups, len(prompt), 0) for i in range(count)]
    for request in batch:
        speculator.admit(request.id, (*prompt, 1000 + request.group), request.written)
    return batch


def step(speculator: Speculator, batch: list[Request], rate: float, rng: random.Random, costs: CostTable | None = None) -> StepPlan:
    """Decodes one step in which each learned draft token is right at ``rate``, and no suffix draft is.

    Without ``costs`` all steps take the same time."""
    plan = speculator.plan(batch, learned=True)
    verify = plan.shape.verify if plan.shape else 0
    given = plan.given or [None] * len(batch)
    accepted = []
    for chain in given:
        drafts = 0
        while chain is None and drafts < verify and rng.random() < rate:
            drafts += 1
        accepted.append(drafts)
    for request, drafts in zip(batch, accepted, strict=True):
        request.length += drafts + 1
        request.generated += drafts + 1
    speculator.record(plan, accepted, [drafts + 1 for drafts in accepted], costs.seconds(plan.strategy, plan.context) if costs else 0.01)
    return plan
