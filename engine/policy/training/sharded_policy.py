"""Fully sharded data parallelism (FSDP2): weights, gradients and optimizer are shared out over the workers.

A layer's weights are together only while it computes: they are gathered before, in the data type of the computation, and its gradients
are summed in float32 and shared out again after each backward pass. So all workers must take part in every pass.
"""

from hashlib import sha256
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from engine.config.learner import LearnerConfig
from engine.models.checksum import checksum
from engine.models.folder import read_facts
from engine.models.host_to_device import to_device
from engine.models.load_sharded import empty_model, read_shards, renew_rotary
from engine.models.weights import base_weights, local, whole
from engine.policy.training import lora
from engine.policy.training.network import Network
from engine.policy.training.policy import Policy, checkpoint_activations, prepare
from engine.policy.training.precision import computing_type


class ShardedPolicy(Policy):
    """The model in ``folder``, of which no worker ever holds more than its share and a layer; the reference is it, too."""

    sharded = saves = True

    def __init__(
        self,
        folder: Path,
        config: LearnerConfig,
        temperature: float,
        device: torch.device,
        group: dist.ProcessGroup,
        with_reference: bool,
        seed: int = 0,
    ) -> None:
        mesh = DeviceMesh.from_group(group, device.type)
        network = _spread(folder, config, temperature, device, mesh)
        super().__init__(network, config, device, group)
        self.saving_group = dist.new_group(backend="gloo")  # of its own: a checkpoint is written while training goes on
        if config.lora:
            lora.draw(network.model, seed)
        if with_reference and config.lora:
            self._reference = lora.Unadapted(network)
        elif with_reference:
            self._reference = _spread(folder, config, temperature, device, mesh, frozen=True)
        checkpoint_activations(network.model, config)

    def rounds(self, batches: int) -> int:
        most = to_device(torch.tensor(max(1, batches)), self.device)  # at least one, which leaves gradients to step with
        dist.all_reduce(most, dist.ReduceOp.MAX, group=self.group)
        return int(most.item())

    def zero_gradients(self) -> None:
        self.network.zero_grad()

    def checksum(self) -> str:
        parts: list[str] = [""] * dist.get_world_size(self.group)
        dist.all_gather_object(parts, checksum(map(local, self.weights().values())), group=self.group)
        return sha256("".join(parts).encode()).hexdigest()

    def clip_gradients(self, max_norm: float) -> float:
        trained = self.trained().values()
        norm = whole(get_total_norm([weight.grad for weight in trained if weight.grad is not None]))
        clip_grads_with_norm_(trained, max_norm, norm)
        return float(norm.item())


def _spread(
    folder: Path, config: LearnerConfig, temperature: float, device: torch.device, mesh: DeviceMesh, frozen: bool = False
) -> Network:
    compute = computing_type(config, device, read_facts(folder).hidden_size)
    model = empty_model(folder, compute if frozen else torch.float32).requires_grad_(not frozen)
    prepare(model, config)
    if config.lora:
        lora.adapt(model, config.lora)
    network = Network(model, temperature)
    precision = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=torch.float32)
    offload = CPUOffloadPolicy(pin_memory=device.type == "cuda") if config.cpu_offload else OffloadPolicy()
    layers: nn.ModuleList = model.base_model.layers  # type: ignore[assignment]
    for module in (*layers, network):
        fully_shard(module, mesh=mesh, reshard_after_forward=True, mp_policy=precision, offload_policy=offload)
        _sum_gradients(module)
    register_fsdp_forward_method(network, "features")
    network.to_empty(device="cpu" if config.cpu_offload else device)
    model.tie_weights()  # allocation has set them apart
    read_shards(base_weights(model), folder, mesh.get_group())
    renew_rotary(model, device)
    return network


def _sum_gradients(module: nn.Module) -> None:
    """The loss is divided by what all workers' responses count together, so that their gradients are to be summed, not averaged."""
    assert isinstance(module, FSDPModule)
    module.set_gradient_divide_factor(1.0)
    module.set_force_sum_reduction_for_comms(True)
