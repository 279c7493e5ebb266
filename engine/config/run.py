"""The whole of a run's configuration."""

from typing import Literal

from pydantic import Field, model_validator

from engine.config.algorithm import AlgorithmConfig
from engine.config.cluster import ClusterConfig
from engine.config.drafter import DrafterConfig
from engine.config.rollout import RolloutConfig
from engine.config.section import HostPathText, Name, Section
from engine.config.speculation import SpeculationConfig
from engine.config.task import CodeConfig, CountdownConfig, DatasetConfig, FunctionConfig, PromptsConfig, TaskConfig
from engine.models.families import LISTED


class ModelConfig(Section):
    path: HostPathText = Field(
        "tiny",
        min_length=1,
        description=f"Built-in model (tiny, small), a name that longtail models lists, or a local Hugging Face folder ({LISTED})",
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        "auto",
        description="Data type of the rollout engine's weights; auto: bfloat16 on GPUs, on CPUs what is fast",
    )


class CheckpointConfig(Section):
    every: int = Field(10, ge=1, description="RL steps between checkpoints; a lost attempt does so many again at most")
    keep: int = Field(2, ge=1, description="Checkpoints kept")
    drafter_every_microsteps: int = Field(
        32,
        ge=0,
        description="A killed run loses at most so many micro-steps of the drafter's training; 0: all of its step",
    )


class EvaluationConfig(Section):
    every: int = Field(0, ge=0, description="Evaluate after every so many steps and after the last, which takes a rollout each; 0: never")
    prompts: int = Field(64, ge=1, le=65_536, description="Validation prompts, or all if there are fewer")
    samples: int = Field(4, ge=1, le=1024, description="Responses for each: K of pass@K")


class RunConfig(Section):
    """One run. ``speculation.enabled=false`` is the plain baseline of the same run."""

    name: Name = Field("run", description="No control characters")
    seed: int = Field(0, ge=0, lt=2**31, description="Runs of one seed draw the same prompts and the same responses")
    model: ModelConfig = Field(default_factory=ModelConfig)
    task: TaskConfig = Field(CountdownConfig(), description="What is learned")
    algorithm: AlgorithmConfig = Field(default_factory=AlgorithmConfig)
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig)
    rollout: RolloutConfig = Field(default_factory=RolloutConfig)
    speculation: SpeculationConfig = Field(default_factory=SpeculationConfig)
    drafter: DrafterConfig = Field(default_factory=DrafterConfig)
    cluster: ClusterConfig = Field(default_factory=ClusterConfig)
    checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)

    @property
    def gpus(self) -> int:
        """GPUs of its machine that the run takes where there are so many: one for each rank. Those of a Ray cluster are Ray's to give."""
        if self.cluster.device == "cpu" or self.cluster.ray_address is not None:
            return 0
        return self.cluster.workers * self.rollout.gpus

    @property
    def gpu_only(self) -> bool:
        """Whether it cannot do without these."""
        return self.gpus > 0 and (self.cluster.device == "cuda" or self.rollout.engine == "sglang")

    def with_workers(self, workers: int) -> "RunConfig":
        """The same run on so many workers."""
        return self.model_copy(update={"cluster": self.cluster.model_copy(update={"workers": workers})})

    def on_gpus_again(self) -> "RunConfig":
        """The same run, which has computed on GPUs: in a Ray cluster it waits for some, as one that has just started has none yet."""
        if self.cluster.ray_address is None or self.cluster.device != "auto":
            return self
        return self.model_copy(update={"cluster": self.cluster.model_copy(update={"device": "cuda"})})

    @model_validator(mode="after")
    def _work_for_every_worker(self) -> "RunConfig":
        if self.algorithm.steps and self.cluster.workers > self.algorithm.prompts_per_step:
            raise ValueError(
                f"cluster.workers={self.cluster.workers} exceeds algorithm.prompts_per_step={self.algorithm.prompts_per_step}: "
                "a worker would have nothing to do; lower the one or raise the other"
            )
        return self

    @model_validator(mode="after")
    def _rollouts_to_learn_from(self) -> "RunConfig":
        scheduling, algorithm = self.rollout.scheduling, self.algorithm
        changes = {"over_sampling": (scheduling.over_sampling > 1, "1"), "asynchronous": (scheduling.asynchronous, "false")}
        for name, (on, off) in changes.items():
            if on and algorithm.refills:
                raise ValueError(
                    f"rollout.scheduling.{name}={getattr(scheduling, name)} and algorithm.refills={algorithm.refills} exclude each "
                    f"other: set {name} to {off} or refills to 0"
                )
        stale = "partial" if scheduling.partial else "asynchronous" if scheduling.asynchronous else None
        if stale and not algorithm.rollout_correction:
            raise ValueError(
                f"rollout.scheduling.{stale}: some tokens are those of older policies, which algorithm.rollout_correction=0 does not "
                f"correct; set that to 2, say, or {stale} to false"
            )
        return self

    @model_validator(mode="after")
    def _something_to_do(self) -> "RunConfig":
        pretrains = self.drafter.pretrain_minutes > 0
        if pretrains and not self.speculation.enabled:
            raise ValueError("drafter.pretrain_minutes: speculation.enabled is false, so there is no drafter; set the one or the other")
        if not pretrains and self.drafter.pretrain_responses:
            raise ValueError("drafter.pretrain_responses: set drafter.pretrain_minutes, too, or nothing is trained on them")
        if pretrains and not self.drafter.pretrain_responses and self.rollout.max_new_tokens < 2:
            raise ValueError(
                "rollout.max_new_tokens=1: there is nothing to draft in responses of one token; raise it to pretrain a drafter"
            )
        if not (pretrains or self.algorithm.steps):
            raise ValueError("algorithm.steps=0 only pretrains a drafter: set drafter.pretrain_minutes, or steps to at least 1")
        if isinstance(self.task, PromptsConfig) and self.algorithm.steps:
            raise ValueError("task.name=prompts has no rewards to learn from: it is for algorithm.steps=0; choose another task")
        return self

    @model_validator(mode="after")
    def _something_to_evaluate_on(self) -> "RunConfig":
        if self.evaluation.every and isinstance(self.task, DatasetConfig) and not (self.task.validation_path or self.task.validation_share):
            raise ValueError("evaluation.every: no rows are kept for evaluation; give task.validation_path or task.validation_share")
        return self


def own_code(config: RunConfig) -> dict[str, str]:
    """The fields, with their values, by which a run executes what is not ours outside of any sandbox."""
    task = config.task
    functions = {"algorithm.advantage": config.algorithm.advantage, "algorithm.loss": config.algorithm.loss}
    if isinstance(task, FunctionConfig):
        functions["task.function"] = task.function
    found = {field: name for field, name in functions.items() if ":" in name}
    return found | ({"task.isolation": task.isolation} if isinstance(task, CodeConfig) and task.isolation == "limits" else {})
