"""What training the drafter in idle time takes of a GPU, by arithmetic."""

from engine.config.learner import LearnerConfig
from engine.drafter.kind import DrafterKind, feature_width
from engine.planner.memory import FLOAT, HALF, Parts, drafter_parameters
from engine.planner.model_shape import Shape

BLOCK, BLOCK_ON_CPU = 2**25, 128
"""Values of a block of a law on a GPU, and rows of one on a CPU, as engine.drafter.law_loss has them."""
VALUE = 20
"""Bytes of a value of a block at the worst moment: the law of the target, and of the drafter logits, their logarithm, exponential and
derivative."""


def states(shape: Shape, kind: DrafterKind) -> int:
    """Weights and two moments, in float32; gradients are there in a step only."""
    return 3 * FLOAT * drafter_parameters(shape, kind)


def target_ends(shape: Shape, learner: LearnerConfig) -> int:
    """The target's embedding and head, in float32, where the policy is shared out: else they are the policy's own. And what the head is in
    bfloat16."""
    gathered = 2 * FLOAT if learner.parallel == "fsdp" else 0
    return (gathered + HALF) * shape.vocabulary * shape.hidden


def step(shape: Shape, kind: DrafterKind, unroll: int, tokens: int, *, half: bool = True, on_gpu: bool = True) -> int:
    """A training step with ``unroll`` passes on ``tokens`` of one response, which is the worst: scores are as many as tokens squared.
    ``half``: it computes in bfloat16."""
    return sum(step_parts(shape, kind, unroll, tokens, half=half, on_gpu=on_gpu).values())


def step_parts(shape: Shape, kind: DrafterKind, unroll: int, tokens: int, *, half: bool, on_gpu: bool) -> Parts:
    """Bytes by what takes them."""
    c = HALF if half else FLOAT
    rows = BLOCK // shape.vocabulary if on_gpu else BLOCK_ON_CPU
    width = feature_width(kind, shape.hidden)
    return {
        "gradients": FLOAT * drafter_parameters(shape, kind),
        "activations": tokens * unroll * pass_activations(shape, c),
        "scores": (unroll - 1) * shape.heads * tokens**2 * (FLOAT + c),
        "responses": tokens * (2 * HALF * width + FLOAT * (width + shape.hidden)),
        "laws": VALUE * rows * shape.vocabulary,
    }


def pass_activations(shape: Shape, c: int) -> int:
    """Of one token in one pass, in ``c`` bytes."""
    queries, keys, hidden = shape.heads * shape.head_size, shape.kv_heads * shape.head_size, shape.hidden
    return 12 * hidden + 4 * c * hidden + c * (3 * queries + 2 * keys) + 4 * c * shape.intermediate
