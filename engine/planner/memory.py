"""What a run takes of a GPU's memory, by arithmetic: the learner's states as in ZeRO (arXiv 1910.02054, section 3: 16 bytes a parameter
with Adam, here 4 each for weights, gradients and either moment), what a backward pass keeps, and the rollout engine.

All figures are bytes on the fullest GPU: the learner has a rank on each, the rollout engine spreads over those of a worker.
"""

from dataclasses import dataclass, field

from engine.config import SpeculationConfig
from engine.config.learner import LearnerConfig
from engine.drafter.kind import DrafterKind, feature_width
from engine.planner.model_shape import Shape
from engine.rollout.native.layout.page_table import PAGE

GB = 10**9
FLOAT, HALF, TOKEN = 4, 2, 8
LOGITS_AT_ONCE = 2**25
"""As engine.policy.training.logprobs has it."""
LOGIT = 18
"""Bytes of a logit at the worst moment: itself and four gradients and copies in float32, one in bfloat16."""
OVERHEAD = 2 * GB
"""CUDA context, communication buffers and what the allocator cannot use, of learner and engine together."""


@dataclass(frozen=True)
class Hardware:
    """GPUs in all are ``nodes`` times ``gpus``, of ``memory`` bytes each; ``tensor_parallel`` of them make a worker."""

    nodes: int = 1
    gpus: int = 8
    memory: int = 80 * GB
    tensor_parallel: int = 1

    @property
    def ranks(self) -> int:
        """Of the learner."""
        return self.nodes * self.gpus


@dataclass(frozen=True)
class Load:
    """``tokens`` in a micro-batch, as configured; ``requests`` that a worker decodes at once, each of up to ``context`` tokens;
    ``reference``: a KL term needs a second model; ``drafter``: one is used, as ``speculation`` says, and trained in idle time, of ``kind``,
    by steps of ``unroll`` passes over ``drafter_tokens``; ``released``: the cache is given up between rollouts."""

    tokens: int = 8_192
    requests: int = 32
    context: int = 8_192
    reference: bool = True
    drafter: bool = True
    released: bool = True
    kind: DrafterKind = "eagle"
    unroll: int = 2
    drafter_tokens: int = 1024
    speculation: SpeculationConfig = field(default_factory=SpeculationConfig)

    @property
    def microbatch(self) -> int:
        """The tokens of the largest micro-batch: a sequence is never cut, and one that is longer than ``tokens`` stands alone."""
        return max(self.tokens, self.context)


Parts = dict[str, int]


def states(shape: Shape, learner: LearnerConfig, ranks: int, reference: bool) -> Parts:
    """What the learner always has of its GPU, but for gradients, which are there in an update only. Offloaded, it is on the host."""
    shards = ranks if learner.parallel == "fsdp" else 1
    trained = adapters(shape, learner.lora.rank) if learner.lora else shape.parameters
    weights = FLOAT * (shape.parameters + (trained if learner.lora else 0)) // shards
    frozen = width(learner) if learner.parallel == "fsdp" else FLOAT
    return {
        "weights (float32)": weights,
        "optimizer": 2 * FLOAT * trained // shards,
        "gradients": FLOAT * trained // shards,
        "reference": frozen * shape.parameters // shards if reference and not learner.lora else 0,
    }


def offloaded(shape: Shape, states: Parts, ranks: int) -> int:
    """What ``states`` take of the host. All but the optimizer's are pinned, for which torch takes powers of two: of each matrix's shard the
    next one (ATen/core/CachingHostAllocator.h)."""
    shards = [FLOAT * -(-matrix // ranks) for matrix in shape.matrices]
    taken = sum(1 << (shard - 1).bit_length() for shard in shards) / sum(shards)
    return states["optimizer"] + int(taken * (sum(states.values()) - states["optimizer"]))


def passes(shape: Shape, learner: LearnerConfig, tokens: int, logits: int | None = None) -> Parts:
    """What the forward and backward pass of a micro-batch take beside the states. ``logits``: bytes for them, if they are not ours."""
    layer, again = layer_activations(shape, learner), learner.activation_checkpointing
    kept = residual_width(learner) * shape.hidden if again else layer
    last = (FLOAT + 2 * residual_width(learner)) * shape.hidden
    ours = LOGIT * min(tokens * shape.vocabulary, LOGITS_AT_ONCE)
    return {
        "gathered weights": gathered_weights(shape, learner),
        "activations": tokens * (shape.layers * kept + last),
        "a layer computed again": tokens * layer if again else 0,
        "logits": ours if logits is None else logits,
    }


def gathered_weights(shape: Shape, learner: LearnerConfig) -> int:
    """Weights and gradients that are together for a moment: with FSDP the ends and two layers with the buffers of their exchange; with
    DDP only the copies that autocast makes."""
    c = width(learner)
    if learner.parallel == "fsdp":
        return c * (2 * shape.ends + 4 * shape.layer) + FLOAT * shape.layer
    return 0 if learner.precision == "float32" else c * shape.parameters


def layer_activations(shape: Shape, learner: LearnerConfig) -> int:
    """Of one token in one layer: per norm its input in float32 and two results; queries, keys, values and twice the output of attention,
    which keeps no scores; of the MLP both inputs of the product, the gate before its activation, and the product. Under autocast (DDP) a
    norm's results are in float32, and each of the five products that read them has a copy of its own."""
    c, queries, keys = width(learner), shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    norms = 2 * (FLOAT + 2 * c) if residual_width(learner) == c else 2 * (FLOAT + FLOAT) + 5 * c
    return norms * shape.hidden + c * (3 * queries + 2 * keys) + 4 * c * shape.intermediate


def residual_width(learner: LearnerConfig) -> int:
    """Bytes of a value between layers: FSDP casts a layer's inputs, autocast does not."""
    return width(learner) if learner.parallel == "fsdp" else FLOAT


def engine(shape: Shape, hardware: Hardware, load: Load) -> Parts:
    """The rollout engine in bfloat16, with room for all its requests at their longest, and its drafter. It does with less cache, see
    ``memory_plan``."""
    share = hardware.tensor_parallel
    return {
        "engine weights": HALF * shape.parameters // share,
        "KV cache": load.requests * request(shape, load) // share,
        "drafter in the engine": HALF * drafter_parameters(shape, load.kind) if load.drafter else 0,
    }


def drafter_parameters(shape: Shape, kind: DrafterKind = "eagle") -> int:
    """A layer, and what fuses embedding and feature (EAGLE), or three features, beside which attention reads the embedding (EAGLE-3)."""
    if kind == "eagle":
        return shape.layer + 2 * shape.hidden**2
    more = shape.hidden * shape.head_size * (shape.heads + 2 * shape.kv_heads)
    return shape.layer + more + 3 * shape.hidden**2


def request(shape: Shape, load: Load) -> int:
    """The cache of a request at its longest: whole pages of positions."""
    return -(-load.context // PAGE) * PAGE * position(shape, load)


def position(shape: Shape, load: Load) -> int:
    """What the cache holds of a position: its token; keys and values of all layers, for a drafter of one more, and the feature that it
    reads."""
    drafter = shape.cached // shape.layers + feature_width(load.kind, shape.hidden) if load.drafter else 0
    return TOKEN + HALF * (shape.cached + drafter)


def adapters(shape: Shape, rank: int) -> int:
    """Parameters of low-rank adapters on all linear layers."""
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    ends = 2 * (shape.hidden + queries) + 2 * (shape.hidden + keys) + 3 * (shape.hidden + shape.intermediate)
    return shape.layers * rank * ends


def width(learner: LearnerConfig) -> int:
    """Bytes of a value in forward and backward passes."""
    return FLOAT if learner.precision == "float32" else HALF
