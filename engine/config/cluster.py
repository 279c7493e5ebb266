"""What can be set of the machines that a run uses."""

from typing import Literal

from pydantic import Field, model_validator

from engine.config.learner import LearnerConfig
from engine.config.section import Section


class ClusterConfig(Section):
    workers: int = Field(2, ge=1, le=4096, description="Rollout workers (one per GPU group or CPU share); each holds the model")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where there is a GPU, else the CPU")
    threads_per_worker: int = Field(1, ge=1, le=1024, description="CPU threads of a worker, for each of its GPUs")
    ray_address: str | None = Field(None, description="Address of a running Ray cluster; null starts a private one on loopback")
    learner: LearnerConfig = Field(default_factory=LearnerConfig)
    nodes: int | None = Field(None, ge=1, le=4096, description="Machines to spread the workers over evenly; null fills one after the other")
    min_workers: int | None = Field(
        None, ge=1, le=4096, description="Go on with so few where there is no room for all, as without a lost machine; null: all or none"
    )
    patience: float = Field(300.0, gt=0, le=86_400, description="Seconds that a cluster may take to make room, such as to start machines")

    @property
    def least_workers(self) -> int:
        return min(self.workers, self.min_workers or self.workers)

    @model_validator(mode="after")
    def _workers_for_every_node(self) -> "ClusterConfig":
        if self.nodes and self.nodes > self.workers:
            raise ValueError(f"nodes={self.nodes} exceeds workers={self.workers}: a machine would have nothing to do; lower it")
        return self
