"""What can be set of the learned drafter and of its training in idle time."""

from typing import Literal

from pydantic import Field

from engine.config.section import HostPath, HostPathText, LearningRate, Section, Unlimited

BASE_WIDTH = 576
"""Hidden size up to which a drafter's learning rates are taken as they are: that of SmolLM2-135M, on whose drafters ours were chosen."""
WIDER = f"a model of a hidden size above {BASE_WIDTH} takes {BASE_WIDTH} / hidden size of it"


class TriggerConfig(Section):
    """When idle workers train: at every step while that helps and pays, then less and less often, or when one of these asks for it."""

    patience: int = Field(3, ge=1, description="Sessions in a row without least_gain until steps are skipped: 1, then 3, 7, ...")
    least_gain: float = Field(0.002, ge=0, le=1, description="Rise of held-out acceptance that makes a session worth repeating at once")
    every: int = Field(10, ge=1, description="Train at least every so many steps; 1 trains at every step")
    acceptance_drop: float = Field(0.03, ge=0, le=1, description="Train when acceptance falls by this share of its best, and not by chance")
    drift: Unlimited = Field(
        0.005, ge=0, description="Train when the target's weights have moved by this share since the last session; .inf: not for that"
    )


class SpotConfig(Section):
    """Training of the drafter on workers that wait for the tail."""

    enabled: bool = Field(
        True, description="Idle workers train the drafter; that takes memory, and slows workers that share a CPU by some per cent"
    )
    min_idle_workers: int = Field(1, ge=1, description="Idle workers needed before training starts")
    first_set_up: float = Field(
        0.25,
        ge=0,
        description="Seconds to the first judged steps of training, assumed until measured; a tail must last twice as long",
    )
    learning_rate: LearningRate = Field(2e-4, description=f"Of the drafter, once it has learned; {WIDER}")
    first_learning_rate: LearningRate = Field(
        2e-3,
        description=f"Of a drafter that starts from nothing; it falls to learning_rate as sessions stop helping; {WIDER}",
    )
    tokens_per_microbatch: int = Field(
        1024,
        ge=16,
        description="Tokens in one training step of the drafter; stopping waits for one at most. One that starts from nothing has 256 at "
        "most",
    )
    context: int = Field(
        4096,
        ge=0,
        description="Earlier tokens of a long response that its training steps see, as drafting does; 0: none, which is faster",
    )
    unroll: int | None = Field(
        None,
        ge=1,
        le=8,
        description="Passes of a training step, on the drafter's own features from the second on; null: the recipe's own (2, 3 or 7)",
    )
    passes: int = Field(4, ge=1, description="Times that a response is trained on; then as often again as long as held-out responses gain")
    least_tokens: int = Field(16_384, ge=0, description="Tokens to train on at least: older responses make up for small steps")
    buffer_bytes: int | None = Field(
        None,
        ge=2**20,
        description="Host memory for captured hidden states, per worker; null: 8 of the longest responses, an eighth of the host at most, "
        "and all of that where the drafter is pretrained",
    )
    trigger: TriggerConfig = Field(default_factory=TriggerConfig)


class DrafterConfig(Section):
    recipe: Literal["eagle", "hass", "eagle3"] = Field(
        "eagle",
        description="eagle: two steps on its own features; hass: three of them; eagle3: reads three layers of the target, seven such steps",
    )
    reverse_kl: float = Field(
        0.0,
        ge=0,
        le=100,
        description="Weight of a reverse KL term (online speculative decoding) in the loss during the run",
    )
    path: HostPathText | None = Field(
        "builtin",
        description="'builtin' (an EAGLE drafter, comes with tiny), a local drafter folder, 'auto' (the newest one of this platform that "
        "fits, else builtin, else as null), or null: start from the target's last layer",
    )
    pretrain_minutes: float = Field(
        0.0,
        ge=0,
        le=100_000,
        description="For about how long the drafter is trained before the first step, or less where nothing more is gained. The model's "
        "first responses end in time for it, once 8 of each worker are there: it is at least twice as long as these take. With 'auto' only "
        "if none was found, or if there are 0 steps",
    )
    pretrain_responses: HostPath | None = Field(
        None, description="JSONL or parquet file of prompts and responses to pretrain on; null: the model writes its own"
    )
    pretrain_learning_rate: LearningRate = Field(5e-4, description=f"Of the drafter while it is pretrained, at its largest; {WIDER}")
    pretrain_reverse_kl: float | None = Field(
        None,
        ge=0,
        le=100,
        description="reverse_kl while the drafter is pretrained; null: the same, or 0.1 where that is 0, as a draft that the target would "
        "not write costs all that follow it",
    )
    draft_vocabulary: int = Field(
        8192,
        ge=0,
        le=1_000_000,
        description="Tokens, the most frequent ones, that a drafter drafts from if it is pretrained from nothing; 0: all. Responses stay "
        "the same",
    )
    spot: SpotConfig = Field(default_factory=SpotConfig)
