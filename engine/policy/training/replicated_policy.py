"""Data parallelism: every worker holds the whole policy."""

import copy
from contextlib import AbstractContextManager

import torch
import torch.distributed as dist
from transformers import PreTrainedModel

from engine.config.learner import LearnerConfig
from engine.policy.training import lora
from engine.policy.training.flat_gradients import FlatGradients
from engine.policy.training.network import Network
from engine.policy.training.policy import Policy, checkpoint_activations, prepare
from engine.policy.training.precision import computing_type


class ReplicatedPolicy(Policy):
    """Trains ``model`` in place, with all workers of ``group``; the reference is a frozen copy of it as given."""

    def __init__(
        self,
        model: PreTrainedModel,
        config: LearnerConfig,
        temperature: float,
        device: torch.device,
        group: dist.ProcessGroup | None,
        with_reference: bool,
        seed: int = 0,
    ) -> None:
        model.to(device).eval().requires_grad_(True)  # type: ignore[arg-type]
        prepare(model, config)
        network = Network(model, temperature)
        super().__init__(network, config, device, group)
        self._autocast = computing_type(config, device, model.config.hidden_size) == torch.bfloat16
        if config.lora:
            lora.adapt(model, config.lora)
            lora.draw(model, seed)
        if with_reference:
            self._reference = lora.Unadapted(network) if config.lora else Network(copy.deepcopy(model).requires_grad_(False), temperature)
        checkpoint_activations(model, config)
        self._gradients = FlatGradients(self.trained().values())

    def rounds(self, batches: int) -> int:
        return batches

    def zero_gradients(self) -> None:
        self._gradients.zero()

    def clip_gradients(self, max_norm: float) -> float:
        if self.group is not None:
            self._gradients.reduce(self.group)
        return self._gradients.clip(max_norm)

    def _computing(self) -> AbstractContextManager[None]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self._autocast)
