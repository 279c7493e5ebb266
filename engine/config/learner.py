"""What can be set of the learner, which carries an algorithm out."""

from typing import Literal

from pydantic import Field, model_validator

from engine.config.section import Section

LinearName = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LINEAR: tuple[LinearName, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class LoraConfig(Section):
    """Low-rank adapters (arXiv 2106.09685): they alone are trained; engines and exports get them added into the weights."""

    rank: int = Field(16, ge=1, le=1024, description="Rank of the two matrices that each adapted layer gets")
    alpha: int = Field(32, ge=1, le=10_000, description="Their product counts alpha / rank times")
    targets: tuple[LinearName, ...] = Field(LINEAR, min_length=1, description="Linear layers that are adapted, in every layer of the model")


class LearnerConfig(Section):
    """How the policy's update uses the workers' devices."""

    parallel: Literal["ddp", "fsdp"] = Field(
        "ddp",
        description="ddp: every GPU holds the whole policy; fsdp: weights, gradients and optimizer are shared out over all (FSDP2)",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="Data type of forward and backward passes; weights, gradient sums and optimizer stay float32. auto: bfloat16 where the "
        "device multiplies it fast (a GPU; a CPU that has it, for models of 512 and wider), else float32",
    )
    packed: Literal["auto", True, False] = Field(
        "auto",
        description="Micro-batches are responses end to end, which do not see each other, instead of padded rows; those to the same prompt "
        "share it, so that it is computed once. auto: where that is less to compute",
    )
    activation_checkpointing: bool = Field(
        False, description="Keep only each layer's input for the backward pass: less memory, about a third more computation"
    )
    cpu_offload: bool = Field(False, description="Weights and optimizer in host memory (parallel=fsdp only)")
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="CPU threads of each worker's update; null: its share of the machine's cores, or cluster.threads_per_worker where "
        "cluster.ray_address or rollout.scheduling.asynchronous is set",
    )
    lora: LoraConfig | None = Field(None, description="Train low-rank adapters instead of all weights (the extra lora)")

    @model_validator(mode="after")
    def _shards_can_be_offloaded(self) -> "LearnerConfig":
        if self.cpu_offload and self.parallel != "fsdp":
            raise ValueError("cpu_offload=True needs parallel=fsdp; set that, or cpu_offload to false")
        return self
