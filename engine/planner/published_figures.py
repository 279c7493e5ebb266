"""Published figures, and what the planner says of the same: ``longtail plan-memory --known``."""

from dataclasses import dataclass

from engine.config.learner import LearnerConfig
from engine.planner import memory
from engine.planner.memory import GB
from engine.planner.model_shape import PRESETS, Shape

FSDP = LearnerConfig(parallel="fsdp", precision="bfloat16")
CHECKPOINTED = FSDP.model_copy(update={"activation_checkpointing": True})
LLAMA = Shape(32, 4_096, 11_008, 32, 32, 128, 32_000, False)
"""LLaMA-7B."""
OPT = Shape(40, 5_120, 20_480, 40, 40, 128, 50_272, True)
"""OPT-13B, whose keys and values are as ours; its other parts are not."""
CROSS_ENTROPY = 12
"""Bytes of a logit in a plain cross-entropy loss, which takes all of them at once: itself, its log-softmax and its gradient."""
MEASURED = "LLaMA-7B, ZeRO-3 on 8 A800, sequences of 4,096 (github.com/chenyaofo, gist d4cd6a20)"


@dataclass(frozen=True)
class PublishedFigure:
    """Bytes of a GPU, or of a token. Where only was published that it fits into the memory of a GPU, ``limit`` is that."""

    what: str
    source: str
    predicted: float
    published: float | None = None
    limit: float | None = None


def published_figures() -> list[PublishedFigure]:
    """By measurement or by others' arithmetic."""
    ours = sum(memory.states(LLAMA, FSDP, 64, reference=False).values()) * 7.5 * GB / LLAMA.parameters
    return [
        PublishedFigure("model states of 7.5 B parameters, 64 GPUs", "ZeRO, arXiv 1910.02054, figure 1", ours, 1.9 * GB),
        PublishedFigure(
            "keys and values of a token, OPT-13B", "PagedAttention, arXiv 2309.06180, section 3", memory.HALF * OPT.cached, 800 * 1024
        ),
        PublishedFigure("2 sequences", MEASURED, training(LLAMA, FSDP, 8, 8_192), 75.7 * GB),
        PublishedFigure("2 sequences, activation checkpoints", MEASURED, training(LLAMA, CHECKPOINTED, 8, 8_192), 20.4 * GB),
        PublishedFigure("8 sequences, activation checkpoints", MEASURED, training(LLAMA, CHECKPOINTED, 8, 32_768), 39.1 * GB),
        PublishedFigure(
            "Llama 3 70B, FSDP2 on 64 A100, 8,192 tokens, activation checkpoints",
            "torchtitan, docs/performance.md",
            training(PRESETS["70B"], CHECKPOINTED, 64, 8_192),
            limit=80 * GB,
        ),
    ]


def training(shape: Shape, learner: LearnerConfig, gpus: int, tokens: int) -> float:
    """Of a GPU in an update with a plain cross-entropy loss, without a reference or a rollout engine."""
    states = memory.states(shape, learner, gpus, reference=False)
    passes = memory.passes(shape, learner, tokens, CROSS_ENTROPY * tokens * shape.vocabulary)
    return sum(states.values()) + sum(passes.values())
