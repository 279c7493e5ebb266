"""One rank of the learner: a device with its part of the policy. A worker has one on each of its GPUs; the first is the worker itself."""

import gc
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from engine.checkpoint import learner_state
from engine.cluster.devices import device_of, giving_ranks, join, show_gpus
from engine.cluster.free_memory import FreeMemory
from engine.cluster.rendezvous import use_network
from engine.cluster.shares import LearnShare
from engine.cluster.spot_training.weight_drift import drift, sketch
from engine.cluster.update_threads import threads, update_threads, usable_cores
from engine.config import RunConfig
from engine.drafter.kind import RECIPE_KINDS
from engine.models.load import load_model, resolve
from engine.models.weights import host_copy
from engine.policy.training.learner import Learner
from engine.policy.training.policy import Policy
from engine.policy.training.precision import allow_tf32, computing_type
from engine.policy.training.replicated_policy import ReplicatedPolicy
from engine.policy.training.sharded_policy import ShardedPolicy
from engine.policy.training.training_row import Inferred, TrainingRow
from engine.rollout.data_type import data_type
from engine.rollout.interface import LoadedWeights
from engine.telemetry.machine_usage import UsageSampler

POLICY = "policy"
SWITCH_SECONDS = 1e-4
"""That a thread may keep the interpreter from another. Decoding gives it up at every operation, and has to wait for it whenever another
thread writes a checkpoint."""


class LearnerRank(ABC):
    """Where the policy is shared out, weights are put together by all ranks at once: so all of them call the same methods equally often,
    and each method looks at the same weights in the same order, whether this rank has a use for them or not."""

    def __init__(self, place: int, config: RunConfig, rendezvous: str) -> None:
        """``place`` counts the ranks of all workers, those of a worker one after the other. ``rendezvous`` is a torch.distributed init
        method that all share."""
        torch.set_num_threads(config.cluster.threads_per_worker)
        self._update_threads = update_threads(config, usable_cores())
        torch.set_flush_denormal(True)  # denormals are slow on CPUs; every rank must round alike
        sys.setswitchinterval(SWITCH_SECONDS)
        use_network(rendezvous)
        self.device = device_of(config)
        self.policy = _policy(config, self.device, join(config, place, rendezvous, self.device))
        self._giving = giving_ranks(config, place, self.device)
        show_gpus(config.rollout.gpus, place, self.device)
        self.learner = Learner(self.policy, config.algorithm, config.rollout.max_new_tokens)
        self._dtype = data_type(config, self.device, self.policy.model.config.hidden_size)
        allow_tf32(self.device, self._dtype, computing_type(config.cluster.learner, self.device, self.policy.model.config.hidden_size))
        self._kind = RECIPE_KINDS[config.drafter.recipe]
        self._target_version = 0
        self._staged_policy: dict[str, Any] | None = None
        self._sketch = self._drafters_sketch = sketch(self.policy.weights())
        self._sampler = UsageSampler()
        self._free_memory = FreeMemory()

    def freeze(self) -> None:
        """To be called once all is set up: what is there by now stays, and the garbage collector need not look through it in a rollout."""
        gc.collect()
        gc.freeze()

    def usage(self) -> tuple[str, dict[str, float]]:
        """This machine's name, and how busy it and the rank's GPU were since the last call."""
        return socket.gethostname(), self._sampler.take()

    def infer(self, rows: Sequence[TrainingRow], groups: Sequence[int] | None = None) -> list[Inferred] | None:
        """Log-probs under the policy, before its update, and under the reference; None if nobody needs them. See ``Learner.infer``."""
        return self.learner.infer(rows, groups)

    def learn(self, rows: Sequence[TrainingRow], inferred: Sequence[Inferred] | None, step: int) -> LearnShare:
        """Policy update with all other ranks, and new weights into the rollout engine. ``inferred``: what ``infer`` said of the rows."""
        began = time.perf_counter()
        with threads(self._update_threads):
            metrics = self.learner.update(rows, inferred, step)
        self._free_memory.after_update()
        updated = time.perf_counter()
        self._load_target(step + 1)
        loaded_weights = self._loaded_weights()
        checksum = self._checksum(loaded_weights)
        synced = time.perf_counter()
        self._follow()
        weights = self.policy.weights()
        self._sketch = sketch(weights)
        return LearnShare(
            metrics,
            updated - began,
            synced - updated,
            sum(weight.numel() for weight in weights.values()) * self._dtype.itemsize,
            checksum,
            loaded_weights,
            drift(self._drafters_sketch, self._sketch),
        )

    def stage(self) -> None:
        """Copies this rank's part of the resume unit to host memory, for ``write``: training may go on in the meantime."""
        self._staged_policy = host_copy(self.learner.state()) if self.policy.saves else None

    def write(self, folder: Path) -> None:
        """Writes what was staged; replicas of the policy, equal everywhere, are one rank's to write. Called from another thread."""
        if self._staged_policy:
            learner_state.write(self._staged_policy, folder / POLICY, self.policy.saving_group)
        self._staged_policy = None

    def load(self, folder: Path) -> int:
        """Goes on from ``folder``; returns the drafter's version, 0 if there is none."""
        learner_state.read(self.learner.state(), folder / POLICY, self.policy.saving_group)
        self._sketch = self._drafters_sketch = sketch(self.policy.weights())
        self._load_target(self._target_version)
        self._follow()
        return 0

    def _checksum(self, loaded_weights: LoadedWeights | None) -> str:  # noqa: ARG002
        """Of the policy."""
        return self.policy.checksum()

    @abstractmethod
    def _loaded_weights(self) -> LoadedWeights | None:
        """What the engine decodes with."""

    @abstractmethod
    def _load_target(self, version: int) -> None:
        """The policy's weights as the engine's target."""

    @abstractmethod
    def _follow(self) -> None:
        """The policy's embedding and head as the drafter's, if there is one."""


def _policy(config: RunConfig, device: torch.device, group: dist.ProcessGroup | None) -> Policy:
    """``group`` are all ranks; None for a single one that holds the whole policy."""
    folder, learner, reference = resolve(config.model.path), config.cluster.learner, config.algorithm.kl_coefficient > 0
    temperature, seed = config.rollout.temperature, config.seed
    if learner.parallel == "ddp":
        return ReplicatedPolicy(load_model(folder, torch.float32), learner, temperature, device, group, reference, seed)
    assert group is not None, "shards need a group, even of one worker"
    return ShardedPolicy(folder, learner, temperature, device, group, reference, seed)
