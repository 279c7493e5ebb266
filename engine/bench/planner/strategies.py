"""Published speed-ups of fixed strategies, accept lengths, and tokens per second, beside what the roofline says of them."""

from dataclasses import dataclass
from math import log

import numpy as np

from engine.bench.planner.cells import PUBLISHED, Cell
from engine.bench.planner.least_squares import Array, fit
from engine.planner.calibration import Acceptance, Efficiency, usual
from engine.planner.hardware import known_gpus
from engine.planner.model_shape import PRESETS
from engine.planner.simulation.acceptance import accepted_tokens
from engine.planner.simulation.decode_costs import Roofline
from engine.speculation.strategy import Strategy

BRANCHES, DEPTH = 8, 10
SINGLE = (Strategy("eagle", 8, 8, 48), 1_000)
"""What 7B is taken to draft with, and the tokens before: both are not published."""


@dataclass(frozen=True)
class Model:
    """``context``: tokens before those of the strategy tables; ``first`` of the 7B's drafter is its own."""

    efficiency: Efficiency
    acceptance: Acceptance
    context: float
    first_of_7b: float

    @classmethod
    def of(cls, parameters: Array) -> "Model":
        memory, compute, overlap, layer, exchange, level, verify, first, breadth, decay, context, first_of_7b = parameters.tolist()
        reached = {"memory": memory, "compute": compute, "overlap": overlap, "layer": layer, "exchange": exchange}
        efficiency = usual().efficiency.model_copy(update=reached | {"level": level, "verify": verify})
        acceptance = usual().acceptance.model_copy(update={"first": first, "breadth": breadth, "decay": decay})
        return cls(efficiency, acceptance, context, first_of_7b)


START = (0.8, 0.5, 1.5, 15e-6, 8e-6, 3e-4, 1e-3, 0.85, 0.6, 0.97, 4_000, 0.8)
LOW = (0.6, 0.2, 1.0, 3e-6, 1e-6, 1e-4, 0.0, 0.5, 0.1, 0.9, 300, 0.5)
HIGH = (1.0, 1.0, 8.0, 60e-6, 40e-6, 12e-4, 6e-3, 0.99, 2.5, 1.0, 16_000, 0.99)


def fitted() -> Model:
    """To the logs of the cells that calibrate."""
    return Model.of(fit(lambda parameters: [_log_error(cell) for cell in cells(Model.of(parameters)) if cell.calibrates], START, LOW, HIGH))


def cells(model: Model) -> list[Cell]:
    """All tables; of the depths both the speed-ups and the accept lengths."""
    large = Roofline(PRESETS["32B"], known_gpus()["h100"], 4, model.efficiency)
    found: list[Cell] = []
    table = PUBLISHED["strategies"]
    for row, (batch, values) in enumerate(table["rows"].items()):
        for column, (verify, measured) in enumerate(zip(table["verify"], values, strict=True)):
            _, speedup = _drafting(large, model, Strategy("eagle", DEPTH, BRANCHES, verify), batch, model.context, model.acceptance.first)
            found.append(Cell("strategies", f"batch {batch}, verify {verify}", measured, speedup, (row + column) % 2 == 0))
    return found + _depths(large, model) + _gpus(model)


def _depths(large: Roofline, model: Model) -> list[Cell]:
    found, table = [], PUBLISHED["depths"]
    for row, depth in enumerate(table["rows"]):
        for column, verify in enumerate(table["verify"]):
            length, speedup = _drafting(large, model, Strategy("eagle", depth, BRANCHES, verify), 1, model.context, model.acceptance.first)
            name, calibrates = f"depth {depth}, verify {verify}", (row + column) % 2 == 0
            found.append(Cell("depths", name, table["rows"][depth][column], speedup, calibrates))
            found.append(Cell("accept lengths", name, table["accept_lengths"][depth][column], length, calibrates))
    return found


def _gpus(model: Model) -> list[Cell]:
    found = []
    strategy, context = SINGLE
    for row, (name, (tokens, measured)) in enumerate(PUBLISHED["gpus"].items()):
        roofline = Roofline(PRESETS["7B"], known_gpus()[name], 1, model.efficiency)
        _, speedup = _drafting(roofline, model, strategy, 1, context, model.first_of_7b)
        plain = float(roofline.target(*_one(1, 1, context)))
        found.append(Cell("gpus", f"7B on {name}, plain tokens/s", tokens, 1 / plain, row % 2 == 0))
        found.append(Cell("gpus", f"7B on {name}, speed-up", measured, speedup, row % 2 == 1))
    return found


def _drafting(roofline: Roofline, model: Model, strategy: Strategy, batch: int, context: float, first: float) -> tuple[float, float]:
    """Accept length and speed-up."""
    length = 1 + accepted_tokens(strategy, model.acceptance, first)
    plain = roofline.target(*_one(batch, 1, context))
    levels = strategy.depth * roofline.draft(*_one(batch, strategy.top_k, context))
    step = roofline.target(*_one(batch, strategy.verify + 1, context)) + model.efficiency.verify + levels
    return length, float(length * plain / step)


def _one(*values: float) -> list[Array]:
    return [np.array(float(value)) for value in values]


def _log_error(cell: Cell) -> float:
    return log(cell.predicted / cell.measured)
