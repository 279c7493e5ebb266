"""Low-rank adapters (arXiv 2106.09685) by PEFT, put into the policy's own linear layers: everything else keeps its name and class."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedModel

from engine.config.learner import LoraConfig
from engine.errors import ConfigError
from engine.models.weights import base_weights, local, together
from engine.policy.training.microbatches import Microbatch
from engine.policy.training.network import Network

ADAPTER = "default"


def check_installed() -> None:
    """ConfigError if PEFT is not."""
    if find_spec("peft") is None:
        raise ConfigError("cluster.learner.lora: needs the package peft; install the extra lora, or set it to null")


def adapt(model: PreTrainedModel, config: LoraConfig) -> None:
    """Freezes ``model`` and gives its layers adapters, which ``draw`` is to fill. ConfigError if PEFT is not installed."""
    check_installed()
    import peft

    settings = peft.LoraConfig(r=config.rank, lora_alpha=config.alpha, target_modules=list(config.targets))
    with torch.device(model.device):
        peft.inject_adapter_in_model(settings, model)


@torch.no_grad()
def draw(model: PreTrainedModel, seed: int) -> None:
    """Starts the adapters as PEFT does, the first matrix uniform and the second zero; by ``seed`` alone, however many workers there are."""
    generator = torch.Generator().manual_seed(seed)
    for layer in _adapted(model).values():
        first = layer.lora_A[ADAPTER].weight
        bound = first.shape[1] ** -0.5
        drawn = torch.empty(first.shape).uniform_(-bound, bound, generator=generator).to(first.device)
        first.copy_(distribute_tensor(drawn, first.device_mesh, first.placements) if isinstance(first, DTensor) else drawn)
        layer.lora_B[ADAPTER].weight.zero_()


class Merged(Mapping[str, Tensor]):
    """The weights of an adapted model by Hugging Face name, adapters added in; each is computed when it is looked up. Of shards the first
    matrices are put together at once, as it is made, which every rank must do. So a look-up asks nobody, however often a rank does it; it
    is of no use after the next update."""

    @torch.no_grad()
    def __init__(self, model: PreTrainedModel) -> None:
        self._weights = base_weights(model)
        self._layers = {f"{name}.weight": layer for name, layer in _adapted(model).items()}
        firsts = [layer.lora_A[ADAPTER].weight.detach() for layer in self._layers.values()]
        self._firsts = dict(zip(self._layers, together(firsts, torch.float32), strict=True))

    @torch.no_grad()
    def __getitem__(self, name: str) -> Tensor:
        weight, layer = self._weights[name], self._layers.get(name)
        if layer is None:
            return weight
        second = local(layer.lora_B[ADAPTER].weight)
        change = second @ self._firsts[name].to(second.device) * layer.scaling[ADAPTER]
        merged: Tensor = local(weight) + change.to(weight.dtype)
        if not isinstance(weight, DTensor):
            return merged
        return DTensor.from_local(
            merged, weight.device_mesh, weight.placements, run_check=False, shape=weight.shape, stride=weight.stride()
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


class Unadapted:
    """The network as if it had no adapters: where training began."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._layers = list(_adapted(network.model).values())

    def __call__(self, batch: Microbatch) -> tuple[Tensor, Tensor]:
        scales = [layer.scaling[ADAPTER] for layer in self._layers]
        self._scale([0.0] * len(scales))
        try:
            found: tuple[Tensor, Tensor] = self._network(batch)
        finally:
            self._scale(scales)
        return found

    def _scale(self, scales: list[float]) -> None:
        for layer, scale in zip(self._layers, scales, strict=True):
            layer.scaling[ADAPTER] = scale


def _adapted(model: nn.Module) -> dict[str, Any]:
    return {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}
