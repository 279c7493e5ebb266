"""Measures what decode steps cost on this machine, once per model: the table that the tuner goodput starts from."""

import hashlib
import platform
import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from engine.rollout.interface import Request, Sampling
from engine.rollout.native.drafting import Drafting
from engine.rollout.native.graphs.plan import GraphPlan
from engine.rollout.native.linear import multiplies_bfloat16
from engine.rollout.native.runner import Runner
from engine.rollout.native.sampling import TokenSampler
from engine.rollout.response import Response
from engine.speculation.speculator import StepPlan
from engine.speculation.strategy import Context, Strategy
from engine.speculation.tuner.cost_table import CATCH_UP, CostTable, Grid

BATCHES = (1, 4, 16, 64, 256)
VERIFIED = (1, 3, 6, 12, 25)
BRANCHES = (1, 4)
LENGTHS = (64, 640)
LONGER = 4
"""Times the length before: that of further measurements, up to the longest response of a run."""
MOST_POSITIONS = 2**16
"""Of all requests that are measured at such a length together: their cache is there for that alone."""
MOST_ROWS = 256
ROUNDS = 2
LEVELS = 4
TYPICALLY_BEHIND = 3

Array = NDArray[np.float64]


def cost_table(folder: Path, runner: Runner, identity: str, max_batch: int, vocabulary: int, limit: int) -> CostTable:
    """The table kept in ``folder`` for ``identity`` (what decides the costs, besides this machine and code), measured now if there is none.
    It reaches up to ``limit`` tokens: what a run with a lower one has measured is kept, and only what is longer is measured.

    Tables of several processes that measure at the same time are equally good; the last one stays.
    """
    instructions = (torch.backends.cpu.get_cpu_capability(), multiplies_bfloat16(), torch.cpu._is_amx_tile_supported())
    kernels = (torch.__version__, *instructions, code_of(Path(__file__).parent))
    machine = (platform.node(), platform.machine(), *kernels, torch.get_num_threads(), runner.device_name)
    asked = (max_batch,) if runner.cache_tokens is None else (max_batch, runner.cache_tokens)  # a small cache has room for few requests
    path = folder / f"{hashlib.sha256(repr((identity, (*machine, *asked))).encode()).hexdigest()[:16]}.json"
    batches = [batch for batch in BATCHES if batch < 4 * max_batch]
    kept = CostTable.load(path)
    table = kept or measure(runner, batches, vocabulary)
    for length in lengths(limit):
        if length > table.target.lengths[-1]:
            known = table.target.batches[-1]  # a GPU may have had less room when these were measured
            few = [batch for batch in batches if batch <= known and batch * length <= MOST_POSITIONS] or batches[:1]
            table = table.longer(measure(runner, few, vocabulary, [length]))
    if table is not kept:
        folder.mkdir(parents=True, exist_ok=True)
        table.save(path)
    return table


@cache
def code_of(package: Path) -> str:
    """Changes with the source of ``package``, that of what computes the passes."""
    files = sorted(file for file in package.rglob("*.py") if file.is_file())
    return hashlib.sha256(b"".join(repr(file.relative_to(package)).encode() + file.read_bytes() for file in files)).hexdigest()


def lengths(limit: int) -> list[int]:
    """Where a run is measured whose responses have up to ``limit`` tokens with their prompts: no further apart than ``LONGER`` times, and
    the last one at half of the limit or beyond."""
    found = [*LENGTHS]
    while found[-1] * LONGER <= limit:
        found.append(found[-1] * LONGER)
    return [*found, limit] if limit > 2 * found[-1] else found


@torch.inference_mode()
def measure(runner: Runner, batches: Sequence[int], vocabulary: int, lengths: Sequence[int] = LENGTHS) -> CostTable:
    """Seconds of target and draft passes; some seconds for a small model. Nothing is prefilled: what a pass reads costs the same, whatever
    it is. The cache is gone after it. A runner that has graphs is measured with a graph for every cell."""
    sampler = TokenSampler(Sampling(), vocabulary, runner.cache.positions.device)
    longest = lengths[-1] + max(VERIFIED[-1], LEVELS * BRANCHES[-1]) + 1
    runner.reserve(batches[-1], longest, room_for_one=True)
    room = runner.cache.layout
    batches = [batch for batch in batches if batch == batches[0] or batch * room.cost(longest) <= room.free]
    drafted = runner.passes.drafted
    branches = [branch for branch in BRANCHES if branch <= (vocabulary if drafted is None else len(drafted))]
    plan = runner.passes.plan
    if plan:
        runner.plan_graphs(_graphs(batches[-1], branches))
    target = _grid(batches, VERIFIED, lengths, lambda *cell: _target(runner, sampler, *cell))
    draft = _grid(batches, branches, lengths, lambda *cell: _draft(runner, sampler, *cell)) / (LEVELS - 1 + CATCH_UP)
    runner.forget()
    if plan:
        runner.plan_graphs(plan)
    return CostTable(Grid(batches, VERIFIED, lengths, target.tolist()), Grid(batches, branches, lengths, draft.tolist()))


def _graphs(largest: int, branches: Sequence[int]) -> GraphPlan:
    verified = [Strategy("ngram", width - 1, 1, width - 1) for width in VERIFIED]
    drafted = [Strategy("eagle", LEVELS, branch, LEVELS) for branch in branches]
    return GraphPlan.of(dict.fromkeys([*verified, *drafted], range(1, largest + 1)), largest)


def _grid(
    batches: Sequence[int], widths: Sequence[int], lengths: Sequence[int], work: Callable[[int, int, int], Callable[[], object]]
) -> Array:
    """Seconds [B, W, L] of ``work`` of each cell; cells of too many rows go on with the slope of the two narrower ones.

    What disturbs a measurement only ever adds to it, and more work never takes less time, so a cell is the least of those that are at
    least as large in every way, and of several rounds: what disturbs one cell is over when its turn comes again."""
    cells = list(product(range(len(batches)), range(len(widths)), range(len(lengths))))
    seconds = np.full((len(batches), len(widths), len(lengths)), np.inf)
    for turn, (b, w, n) in product(range(ROUNDS), cells):
        if w < 2 or batches[b] * widths[w] <= MOST_ROWS:
            cell = work(batches[b], widths[w], lengths[n])
            if turn == 0:
                cell()  # it may have to prepare something
            seconds[b, w, n] = min(seconds[b, w, n], _time(cell))
    for b, w, n in cells:
        if np.isinf(seconds[b, w, n]):
            slope = (seconds[b, w - 1, n] - seconds[b, w - 2, n]) / (widths[w - 1] - widths[w - 2])
            seconds[b, w, n] = seconds[b, w - 1, n] + max(slope, 0.0) * (widths[w] - widths[w - 1])
    for axis in range(seconds.ndim):
        seconds = np.flip(np.minimum.accumulate(np.flip(seconds, axis), axis), axis)
    return seconds


def _target(runner: Runner, sampler: TokenSampler, batch: int, width: int, length: int) -> Callable[[], object]:
    responses = _responses(batch, length)
    given = [(0,) * (width - 1)] * batch if width > 1 else None
    return lambda: runner.decode(responses, sampler, StepPlan(Context(batch), given=given))


def _draft(runner: Runner, sampler: TokenSampler, batch: int, width: int, length: int) -> Callable[[], object]:
    """A deep draft, of which catching up takes about as long as ``CATCH_UP`` levels."""
    responses = _responses(batch, length)
    newest = torch.full((batch, 1), length - 1, device=runner.cache.positions.device)
    noise = sampler.noise(newest[:, 0], newest + runner.cache.positions[: LEVELS + 1])

    def draft() -> None:
        for response in responses:
            response.drafted = length - 1 - TYPICALLY_BEHIND
        Drafting(runner.passes, runner.cache, responses, newest).drafts(Strategy("eagle", LEVELS, width, LEVELS), sampler, noise)

    return draft


def _responses(batch: int, length: int) -> list[Response]:
    return [Response(Request(index, 0, (0,) * length)) for index in range(batch)]


def _time(function: Callable[[], object]) -> float:
    """One CPU thread is measured by the time that it computes: what waits for a busy core takes many times as long, and would be kept."""
    gpu = torch.cuda.is_available()
    clock = time.perf_counter if gpu or torch.get_num_threads() > 1 else time.thread_time
    began = clock()
    function()
    if gpu:
        torch.cuda.synchronize()
    return clock() - began
