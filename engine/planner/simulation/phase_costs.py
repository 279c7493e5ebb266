"""Seconds of a step's other phases: by the operations that they take, or as a recorded run had them."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.config import RunConfig
from engine.planner.calibration import Efficiency
from engine.planner.hardware import GIGA, TERA, Machines
from engine.planner.memory import FLOAT, HALF, drafter_parameters
from engine.planner.model_shape import Shape

PCIE = 64
"""GB/s between a GPU and its host."""
FORWARD, BACKWARD = 2, 4
"""Operations of a parameter and token."""
STATES = 3
"""Values of a parameter that a checkpoint has: the weight and the two moments of Adam."""


@dataclass(frozen=True)
class PhaseCosts:
    """``reward``: seconds that a response takes; ``inference`` and ``update``: that a token takes that it computes with; ``*_square``: what
    each pair of tokens of the same response adds, for attention; ``sync`` and ``checkpoint``: each time; ``trained_tokens``: that a
    worker trains the drafter on in a second."""

    reward: float
    inference: float
    update: float
    update_once: float
    sync: float
    checkpoint: float
    trained_tokens: float
    inference_square: float = 0.0
    update_square: float = 0.0
    measured: frozenset[str] = field(default_factory=frozenset)


def updated_with(config: RunConfig, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those ``lengths`` of responses that an update computes with: of those at the limit none, if what was cut is masked. Which of the
    others have no gradient is not known."""
    return lengths[lengths < config.rollout.max_new_tokens] if config.algorithm.mask_truncated else lengths


def inferred(config: RunConfig, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those ``lengths`` of responses whose log-probs are looked up, as ``credit_assignment.looked_up`` has it."""
    return lengths if config.algorithm.kl_in_reward else updated_with(config, lengths)


def by_operations(config: RunConfig, shape: Shape, machines: Machines, efficiency: Efficiency) -> PhaseCosts:
    """All GPUs share the learner's work; ``algorithm.updates_per_step`` updates exchange their gradients one by one."""
    algorithm, learner, gpu, ranks = config.algorithm, config.cluster.learner, machines.gpu, machines.count
    operations = gpu.flops * TERA * ranks
    looked_up = (algorithm.kl_coefficient > 0) + algorithm.needs_old_logprobs
    passes = FORWARD + BACKWARD + (FORWARD if learner.activation_checkpointing else 0)
    trained = 0.02 if learner.lora else 1.0
    exchange = (gpu.network if machines.nodes > 1 else gpu.link) * GIGA
    gathers = 3 * HALF if learner.parallel == "fsdp" else 0
    moved = shape.parameters * (2 * FLOAT * trained + gathers) * (ranks > 1)
    return PhaseCosts(
        reward=0.0,
        inference=looked_up * FORWARD * shape.parameters / (operations * efficiency.training),
        update=passes * shape.parameters / (operations * efficiency.training),
        update_once=algorithm.updates_per_step * moved / exchange,
        sync=HALF * shape.parameters / exchange + HALF * shape.parameters / (PCIE * GIGA),
        checkpoint=STATES * FLOAT * shape.parameters / ranks / (PCIE * GIGA),
        trained_tokens=gpu.flops * TERA * efficiency.training / ((FORWARD + BACKWARD) * _trained(shape)),
    )


def _trained(shape: Shape) -> int:
    """Parameters that a trained token of the drafter passes through, in two passes of the recipe."""
    return 2 * (drafter_parameters(shape) + shape.vocabulary * shape.hidden)
