"""What a drafter reads of its target, taken out of a pass that is made anyway (DataBuffer, TLT section 3: in the inference stage)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.device_to_host import HostCopy


class FeatureCapture:
    """The features of one pass over B*T positions (see ``kind.py``): the inputs of ``layers``, rising, and then the hidden states after the
    final norm. They go straight to host memory, in bfloat16; a GPU writes them into pinned memory and is not waited for until ``of``."""

    def __init__(self, layers: Sequence[int]) -> None:
        self._layers = layers
        self._parts: list[HostCopy] = []

    @contextmanager
    def inputs(self, model: Any) -> Iterator[None]:
        """Takes the inputs of the layers while ``model``, a causal LM, makes its pass. What a backward pass computes again is not taken."""
        hooks = [model.base_model.layers[layer].register_forward_pre_hook(self._input) for layer in self._layers]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _input(self, _layer: nn.Module, arguments: tuple[Any, ...]) -> None:
        self.add(arguments[0])

    def add(self, states: Tensor) -> None:
        """The next part, [B, T, H]."""
        self._parts.append(HostCopy(states.detach().flatten(0, 1)))

    def of(self, places: Tensor) -> Tensor:
        """Those of the positions ``places`` [n] of the pass, [n, W], in memory of their own."""
        self._parts[-1].wait()
        return torch.cat([part.memory[places] for part in self._parts], -1)
