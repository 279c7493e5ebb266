"""A policy in training: a network, its reference, and how its weights and gradients are held, by ReplicatedPolicy or ShardedPolicy."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from engine.config.learner import LearnerConfig
from engine.drafter.feature_capture import FeatureCapture
from engine.errors import ConfigError
from engine.models.checksum import checksum
from engine.models.families import FAMILIES
from engine.models.onednn_linear import use_onednn
from engine.models.weights import base_weights, whole
from engine.policy.training import lora
from engine.policy.training.microbatches import Microbatch, Packed
from engine.policy.training.network import PACKED, Network

LogprobsAndEntropies = tuple[Tensor, Tensor]
"""Log-probs and entropies of the response tokens of a micro-batch, both [N]."""

AMPERE = (8, 0)
"""The first GPUs that torch's FlashAttention runs on, by their capability."""


class Policy(ABC):
    """What is the same for all: ``group`` are the workers that train it together, None for a single one."""

    sharded = False
    """Whether all workers must take part whenever weights are looked at as a whole."""

    def __init__(self, network: Network, config: LearnerConfig, device: torch.device, group: dist.ProcessGroup | None) -> None:
        self.network, self.device, self.group = network, device, group
        self.packed = packing(config, network.model, device)
        self._adapted = config.lora is not None
        self._reference: Callable[[Microbatch], LogprobsAndEntropies] | None = None
        self.saving_group: dist.ProcessGroup | None = None  # who writes a checkpoint together: nobody, unless weights are shared out

    @property
    def model(self) -> PreTrainedModel:
        return self.network.model

    def forward(self, batch: Microbatch, capture: FeatureCapture | None = None) -> LogprobsAndEntropies:
        """``capture`` gets the features of all positions."""
        with self._computing():
            found: LogprobsAndEntropies = self.network(batch, capture)
        return found

    def reference_forward(self, batch: Microbatch) -> LogprobsAndEntropies | None:
        """That of the policy as training began; None if there is no need for one."""
        with self._computing():
            return self._reference(batch) if self._reference else None

    @torch.no_grad()
    def features(self, batch: Microbatch, capture: FeatureCapture) -> None:
        """See Network."""
        with self._computing():
            self.network.features(batch, capture)

    def trained(self) -> dict[str, nn.Parameter]:
        """What the optimizer changes, by name."""
        return {name: parameter for name, parameter in self.model.named_parameters() if parameter.requires_grad}

    def weights(self) -> Mapping[str, Tensor]:
        """The weights by Hugging Face name, without a copy: they may be shards (see ``engine.models.weights``). A tied weight has one
        entry, as in a saved folder. With adapters, each weight is computed when it is looked up."""
        return lora.Merged(self.model) if self._adapted else base_weights(self.model)

    def checksum(self) -> str:
        """Of the weights: equal on all workers after each update."""
        return checksum(self.weights().values())

    def export(self, folder: Path | None) -> None:
        """Writes the policy as a Hugging Face folder, without a tokenizer. All workers call it; those without a ``folder`` only help."""
        collected = {}
        for name, weight in self.weights().items():
            full = whole(weight)
            if folder is not None:
                collected[name] = full.cpu()
        if folder is not None:
            self.model.save_pretrained(folder, state_dict=collected)

    @property
    def saves(self) -> bool:
        """Whether this worker has something to write of a checkpoint."""
        return self.group is None or dist.get_rank(self.group) == 0

    @abstractmethod
    def rounds(self, batches: int) -> int:
        """How many passes this worker must take part in, when it has ``batches`` of its own."""

    @abstractmethod
    def zero_gradients(self) -> None: ...

    @abstractmethod
    def clip_gradients(self, max_norm: float) -> float:
        """Sums gradients over all workers, if that is still to be done, and scales them down to a global L2 norm of ``max_norm``; the
        norm before, the same on every worker."""

    def _computing(self) -> AbstractContextManager[None]:
        """Around every pass."""
        return nullcontext()


def packing(config: LearnerConfig, model: PreTrainedModel, device: torch.device) -> Packed:
    """As ``config`` says; ``auto`` packs nothing of a family of which nobody has seen that it computes the same packed, nor on a GPU that
    is too old for the kernel."""
    if config.packed != "auto":
        return config.packed
    old = device.type == "cuda" and torch.cuda.get_device_capability(device) < AMPERE
    return "auto" if model.config.model_type in FAMILIES and not old else False


def prepare(model: PreTrainedModel, config: LearnerConfig) -> None:
    """Makes ``model`` compute as configured; without adapters."""
    if packing(config, model, model.device):
        model.set_attn_implementation(PACKED)
    use_onednn(model)


def checkpoint_activations(model: PreTrainedModel, config: LearnerConfig) -> None:
    """For the model that is trained, in passes without a cache. Not by transformers, who do it in training mode only: that would bring
    back dropout, layers that are left out, and whatever else a family does then."""
    if not config.activation_checkpointing:
        return
    layers: list[Any] = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ConfigError(
            f"cluster.learner.activation_checkpointing: transformers cannot compute activations of a {model.config.model_type} model "
            "again; set it to false"
        )
    for layer in layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
