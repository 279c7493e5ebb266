"""What training the drafter in idle time takes of a GPU, by arithmetic."""

from engine.config.learner import LearnerConfig
from engine.drafter.kind import DrafterKind, feature_width
from engine.planner.memory import FLOAT, HALF, Parts, drafter_parameters
from engine.planner.model_shape import Shape

BLOCK, ROWS = 2**25, 128
"""Values of a block of a law on a GPU, and rows of one at least, as engine.drafter.law_loss has them."""
VALUE = 4 * FLOAT
"""Bytes of a value of a block at the worst moment: the target's probability, and of the drafter the logarithm of its own, that itself, and
the derivative."""
JUDGED, LOOK_AHEAD = 1024, 4
"""Positions of held-out responses that a drafter is judged by at once, and passes over them, as engine.drafter.spot_trainer and
held_out_evaluation have them."""
COPIES = 3
"""Of the drafter's weights in a session: as it began, the average, and the best one so far."""
UNROLLS = {"eagle": 2, "hass": 3, "eagle3": 7}
"""Passes of a training step, as engine.drafter.recipe has them."""
KEPT: dict[DrafterKind, dict[int, int]] = {"eagle": {HALF: 18, FLOAT: 28}, "eagle3": {HALF: 43, FLOAT: 46}}
"""Bytes that a token of a pass keeps for each hidden dimension, by the bytes of a value, outside of attention and MLP: what attention
reads (two features side by side, of EAGLE-3 after norms of each), the residuals, the norm before the MLP (of EAGLE-3 that before the head,
too), and the prediction; as counted of a step at the size of 0.5 B."""


def states(shape: Shape, kind: DrafterKind) -> int:
    """Weights and two moments, in float32; gradients are there in a step only."""
    return 3 * FLOAT * drafter_parameters(shape, kind)


def target_ends(shape: Shape, learner: LearnerConfig) -> int:
    """The target's embedding and head, in float32, where the policy is shared out: else they are the policy's own. And what the head is in
    bfloat16."""
    gathered = 2 * FLOAT if learner.parallel == "fsdp" else 0
    return (gathered + HALF) * shape.vocabulary * shape.hidden


def session(
    shape: Shape, kind: DrafterKind, unroll: int, tokens: int, *, half: bool = True, on_gpu: bool = True, judged: int = JUDGED
) -> int:
    """What a session takes beside the states: the drafters that it may have to go back to, and a training step (see ``step``) or a
    judgement by ``judged`` positions, for which the drafter's own weights are put aside."""
    copy = FLOAT * drafter_parameters(shape, kind)
    training = step(shape, kind, unroll, tokens, half=half, on_gpu=on_gpu)
    return COPIES * copy + max(training, copy + judgement(shape, kind, judged))


def judgement(shape: Shape, kind: DrafterKind, positions: int) -> int:
    """In float32, without gradients. The target's law of all ``positions`` is there twice while its blocks are joined; of every pass the
    prediction, keys and values."""
    cached = 2 * shape.kv_heads * shape.head_size
    predicted = LOOK_AHEAD * (shape.hidden + cached)
    read = 2 * shape.hidden + feature_width(kind, shape.hidden)
    return positions * (2 * FLOAT * shape.vocabulary + FLOAT * (predicted + read) + 2 * HALF * feature_width(kind, shape.hidden))


def step(shape: Shape, kind: DrafterKind, unroll: int, tokens: int, *, half: bool = True, on_gpu: bool = True) -> int:
    """A training step with ``unroll`` passes on ``tokens`` of one response, which is the worst: scores are as many as tokens squared.
    ``half``: it computes in bfloat16."""
    return sum(step_parts(shape, kind, unroll, tokens, half=half, on_gpu=on_gpu).values())


def step_parts(shape: Shape, kind: DrafterKind, unroll: int, tokens: int, *, half: bool, on_gpu: bool) -> Parts:
    """Bytes by what takes them. Gradients grow while activations go, so that the worst moment is before: in the loss's last block, when
    there are the gradients of all predictions, or when the last pass has those of all weights, in the type that it computes in."""
    c = HALF if half else FLOAT
    rows = max(ROWS, BLOCK // shape.vocabulary) if on_gpu else ROWS
    width, parameters = feature_width(kind, shape.hidden), drafter_parameters(shape, kind)
    laws = VALUE * rows * shape.vocabulary + c * tokens * unroll * shape.hidden
    score = HALF + FLOAT if half and on_gpu else c  # autocast has softmax in float32 on a GPU only
    return {
        "weights in bfloat16": HALF * parameters if half else 0,
        "activations": tokens * unroll * pass_activations(shape, kind, c),
        "scores": (unroll - 1) * shape.heads * tokens**2 * score,
        "drafts before": tokens * unroll * (unroll - 1) * c * shape.kv_heads * shape.head_size,
        "responses": tokens * (2 * HALF * width + FLOAT * (width + shape.hidden)),
        "laws or gradients": max(laws, c * parameters),
    }


def pass_activations(shape: Shape, kind: DrafterKind, c: int) -> int:
    """Of one token in one pass; ``c``: bytes of a value."""
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    return KEPT[kind][c] * shape.hidden + c * (3 * queries + 2 * keys) + 4 * c * shape.intermediate
