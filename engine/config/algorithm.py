"""What can be set of an algorithm."""

from typing import Any, Literal

from pydantic import Field, model_validator

from engine.config.import_path import ImportPath
from engine.config.section import LearningRate, Section, Unlimited

AdvantageName = Literal["group_normalised", "group_centred", "leave_one_out", "batch_normalised", "group_centred_batch_normalised"]
LossName = Literal["clipped_ratio", "sequence_ratio", "clipped_weight", "score_function"]

ALGORITHMS: dict[str, dict[str, Any]] = {
    "grpo": {},
    "dr_grpo": {"advantage": "group_centred", "aggregation": "fixed_length", "kl_coefficient": 0.0},
    "dapo": {"clip_high": 0.28, "kl_coefficient": 0.0, "refills": 3, "overlong_share": 0.2, "mask_truncated": False},
    "rloo": {"advantage": "leave_one_out", "loss": "score_function", "aggregation": "sequence_sum", "kl_in": "reward", "kl": "k1"},
    "reinforce_pp": {"advantage": "batch_normalised", "kl_in": "reward", "kl": "k1"},
    "gspo": {"loss": "sequence_ratio", "aggregation": "sequence_mean", "clip_low": 3e-4, "clip_high": 4e-4, "kl_coefficient": 0.0},
    "cispo": {"loss": "clipped_weight", "clip_low": 1.0, "clip_high": 4.0, "kl_coefficient": 0.0},
}
"""What an algorithm's name stands for, where it differs from the defaults; every part can be set otherwise."""
SET_BY_NAME = sorted({key for parts in ALGORITHMS.values() for key in parts})


class AlgorithmConfig(Section):
    """An advantage, a policy loss, how tokens are weighted, and a KL term; ``name`` sets them, mostly as its paper has them."""

    name: Literal["grpo", "dr_grpo", "dapo", "rloo", "reinforce_pp", "gspo", "cispo"] = Field(
        "grpo",
        description="Sets loss, clipping, KL and more as the paper has them; what you set yourself stands",
        json_schema_extra={"sets": list(SET_BY_NAME)},
    )
    advantage: AdvantageName | ImportPath = Field(
        "group_normalised", description="From rewards to advantages; or your own function, as package.module:function"
    )
    loss: LossName | ImportPath = Field(
        "clipped_ratio", description="From log-probs and advantages to the loss of a token; or your own function"
    )
    aggregation: Literal["token_mean", "sequence_mean", "sequence_sum", "fixed_length"] = Field(
        "token_mean", description="How much a token of a long response weighs against one of a short response"
    )
    steps: int = Field(100, ge=0, le=1_000_000, description="RL steps; 0 only pretrains the drafter (drafter.pretrain_minutes)")
    prompts_per_step: int = Field(8, ge=1, le=65_536, description="Prompts in a step, shared out over the workers")
    group_size: int = Field(8, ge=2, le=1024, description="Responses for each prompt; a step takes prompts times this many")
    refills: int = Field(
        0,
        ge=0,
        le=16,
        description="Dynamic sampling (DAPO): further rollouts of a step at most, while groups whose rewards are all equal leave it short",
    )
    learning_rate: LearningRate = Field(2e-5, description="Of the policy")
    warmup_steps: int = Field(2, ge=0, description="Steps over which the learning rate rises to its value")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant", description="The learning rate from then on: constant, or falling to 0 behind the last step"
    )
    clip_low: float = Field(0.2, gt=0, le=1, description="The ratio is clipped to [1 - clip_low, 1 + clip_high]")
    clip_high: float = Field(0.2, gt=0, le=10, description="The upper end of that; above clip_low it lets rare tokens grow (DAPO)")
    kl_coefficient: float = Field(0.001, ge=0, le=10, description="Weight of the KL term; 0 skips the reference model")
    kl: Literal["k1", "k2", "k3"] = Field("k3", description="Estimator of the KL to the start policy")
    kl_in: Literal["loss", "reward"] = Field(
        "loss", description="Where the KL term counts: in each token's loss, or in the response's reward"
    )
    rollout_correction: float = Field(
        2.0, ge=0, le=100, description="Limit of the importance weights for the gap of rollout and training log-probs; 0 turns them off"
    )
    updates_per_step: int = Field(1, ge=1, le=64, description="Optimizer updates on each step's responses")
    overlong_share: float = Field(
        0.0, ge=0, le=1, description="Share of max_new_tokens at whose end the reward falls, by 1 at the limit (DAPO's soft punishment)"
    )
    mask_truncated: bool = Field(
        True,
        description="Learn nothing from a response cut at the length limit (DAPO's overlong filtering); its reward still counts",
    )
    max_gradient_norm: Unlimited = Field(1.0, gt=0, description="Longer gradients are scaled down to it; .inf: none are")
    tokens_per_microbatch: int = Field(2048, ge=1, description="Padded tokens in one forward and backward pass of a worker")

    @model_validator(mode="before")
    @classmethod
    def _as_named(cls, data: Any) -> Any:
        return {**ALGORITHMS.get(str(data.get("name", "grpo")), {}), **data} if isinstance(data, dict) else data

    @property
    def kl_in_loss(self) -> bool:
        return self.kl_coefficient > 0 and self.kl_in == "loss"

    @property
    def kl_in_reward(self) -> bool:
        return self.kl_coefficient > 0 and self.kl_in == "reward"

    @property
    def needs_old_logprobs(self) -> bool:
        """Whether the policy's own log-probs of before are looked up: by updates that are not the first of their step, or by the KL term
        in a reward. The first update is on policy: those that it computes are the old ones."""
        return self.updates_per_step > 1 or self.kl_in_reward

    @property
    def needs_inference(self) -> bool:
        """Whether an update looks up log-probs of before: the reference's, or the policy's own when it is not the first of its step."""
        return self.kl_coefficient > 0 or self.updates_per_step > 1
