"""Measures what decode steps cost on this machine, once per model: the table that the tuner goodput starts from."""

import hashlib
import platform
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import torch

from engine.rollout.base import Request, Sampling
from engine.rollout.native.graphs.plan import GraphPlan
from engine.rollout.native.runner import Runner
from engine.rollout.native.sampling import Law
from engine.rollout.native.scheduler import Response
from engine.speculation.cost import CATCH_UP, CostTable, Grid
from engine.speculation.speculator import Plan
from engine.speculation.strategy import Context, Strategy

BATCHES = (1, 4, 16, 64, 256)
VERIFIED = (1, 3, 9, 25)
BRANCHES = (1, 4)
LENGTHS = (64, 640)
MOST_ROWS = 256
REPETITIONS = 2
LEVELS = 4
TYPICALLY_BEHIND = 3


def cost_table(folder: Path, runner: Runner, identity: str, max_batch: int, vocabulary: int) -> CostTable:
    """The table kept in ``folder`` for ``identity`` (what decides the costs, besides this machine), measured now if there is none.

    Tables of several processes that measure at the same time are equally good; the last one stays.
    """
    machine = (platform.node(), platform.machine(), torch.__version__, torch.get_num_threads(), runner.device_name, max_batch)
    path = folder / f"{hashlib.sha256(repr((identity, machine)).encode()).hexdigest()[:16]}.json"
    table = CostTable.load(path)
    if table is None:
        table = measure(runner, max_batch, vocabulary)
        folder.mkdir(parents=True, exist_ok=True)
        table.save(path)
    return table


@torch.inference_mode()
def measure(runner: Runner, max_batch: int, vocabulary: int) -> CostTable:
    """Seconds of target and draft passes; some seconds for a small model. The cache is gone after it. A runner that has graphs is
    measured with a graph for every cell."""
    batches = [batch for batch in BATCHES if batch < 4 * max_batch]
    law = Law(Sampling(), vocabulary, runner.cache.positions.device)
    runner.reserve(batches[-1], LENGTHS[-1] + max(VERIFIED[-1], LEVELS * BRANCHES[-1]) + 1)
    branches = [branch for branch in BRANCHES if branch <= vocabulary]
    plan = runner.passes.plan
    if plan:
        runner.plan_graphs(_graphs(batches[-1], branches))
    target = _grid(batches, VERIFIED, lambda *cell: _target(runner, law, *cell))
    draft = _grid(batches, branches, lambda *cell: _draft(runner, law, *cell))
    runner.forget()
    if plan:
        runner.plan_graphs(plan)
    return CostTable(target, draft)


def _graphs(largest: int, branches: Sequence[int]) -> GraphPlan:
    shapes = [Strategy("eagle", LEVELS, branch, width - 1) for branch in branches for width in VERIFIED]
    return GraphPlan.of(dict.fromkeys(shapes, range(1, largest + 1)), largest, catch_up=1)


def _grid(batches: Sequence[int], widths: Sequence[int], seconds: Callable[[int, int, int], float]) -> Grid:
    """Cells of too many rows go on with the slope of the two narrower ones. What disturbs a measurement only ever adds to it, and more
    work never takes less time, so a cell is the least of those that are at least as large in every way."""
    measured: dict[tuple[int, int, int], float] = {}
    for batch, (place, width), length in product(batches, enumerate(widths), LENGTHS):
        if place < 2 or batch * width <= MOST_ROWS:
            measured[batch, width, length] = seconds(batch, width, length)
        else:
            near, far = (measured[batch, widths[place - back], length] for back in (1, 2))
            slope = (near - far) / (widths[place - 1] - widths[place - 2])
            measured[batch, width, length] = near + max(slope, 0.0) * (width - widths[place - 1])
    cells = np.array([[[measured[b, w, n] for n in LENGTHS] for w in widths] for b in batches])
    for axis in range(cells.ndim):
        cells = np.flip(np.minimum.accumulate(np.flip(cells, axis), axis), axis)
    return Grid(batches, widths, LENGTHS, cells.tolist())


def _target(runner: Runner, law: Law, batch: int, width: int, length: int) -> float:
    responses = _responses(batch, length)
    given = [(0,) * (width - 1)] * batch if width > 1 else None
    return _fastest(lambda: runner.decode(responses, law, Plan(Context(batch), given=given)))


def _draft(runner: Runner, law: Law, batch: int, width: int, length: int) -> float:
    """Of one level: a deep draft's time, of which catching up is about as much as ``CATCH_UP`` levels."""
    responses = _responses(batch, length)
    newest = torch.full((batch, 1), length - 1, device=runner.cache.positions.device)
    noise = law.noise(newest[:, 0], newest + runner.cache.positions[:LEVELS])

    def draft() -> None:
        for response in responses:
            response.drafted = length - 1 - TYPICALLY_BEHIND
        runner.drafting(responses, newest).drafts(Strategy("eagle", LEVELS, width, LEVELS), law, noise)

    return _fastest(draft) / (LEVELS - 1 + CATCH_UP)


def _responses(batch: int, length: int) -> list[Response]:
    return [Response(Request(index, 0, (0,) * length)) for index in range(batch)]


def _fastest(function: Callable[[], object]) -> float:
    """The least of some timings."""
    function()
    timings = []
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        function()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        timings.append(time.perf_counter() - began)
    return min(timings)
