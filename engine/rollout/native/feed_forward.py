"""The gated feed-forward network of a layer, and a mixture of such networks."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.rollout.native.architecture import Architecture
from engine.rollout.native.linear import Linear
from engine.rollout.native.row_chunks import row_chunks

WORK = {"silu": 1, "gelu_tanh": 2}
"""Torch shares out the second among threads from half as many numbers on as the first."""


class FeedForward(Protocol):
    def parameters(self) -> dict[str, Tensor]:
        """Views of the weights by their Hugging Face names within the layer. ``pack`` after a change."""
        ...

    def pack(self) -> None: ...

    def __call__(self, x: Tensor) -> Tensor:
        """[R, hidden] to [R, hidden]."""
        ...

    def plus(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual`` and the result, both [R, hidden]."""
        ...


def feed_forward(architecture: Architecture, layer: int, like: Tensor) -> FeedForward:
    """That of layer ``layer``, with empty weights on ``like``'s device, in its data type."""
    experts = architecture.experts
    return Mixture(architecture, like) if experts and layer in experts.layers else Gated(architecture, like)


class Gated:
    """Gate and up are one matrix."""

    def __init__(self, architecture: Architecture, like: Tensor, gate_up: Tensor | None = None, down: Tensor | None = None) -> None:
        """The weights ``gate_up`` [2 * intermediate, hidden] and ``down`` [hidden, intermediate], or empty ones."""
        a = architecture
        intermediate = a.intermediate if down is None else down.shape[1]
        self._gate_up = Linear(a.hidden, 2 * intermediate, like, weight=gate_up)
        self._down = Linear(intermediate, a.hidden, like, weight=down)
        self._fused, self._activate, self._work = a.fused, ACTIVATE[a.activation], WORK[a.activation]

    def parameters(self) -> dict[str, Tensor]:
        down = {"mlp.down_proj.weight": self._down.weight}
        if self._fused:
            return down | {"mlp.gate_up_proj.weight": self._gate_up.weight}
        gate, up = self._gate_up.weight.chunk(2)
        return down | {"mlp.gate_proj.weight": gate, "mlp.up_proj.weight": up}

    def pack(self) -> None:
        self._gate_up.pack()
        self._down.pack()

    def __call__(self, x: Tensor) -> Tensor:
        return self._down(self._inner(x))

    def plus(self, residual: Tensor, x: Tensor) -> Tensor:
        return self._down.plus(residual, self._inner(x))

    def _inner(self, x: Tensor) -> Tensor:
        gate, up = self._gate_up(x).chunk(2, -1)
        chunks = [slice(None)] if gate.is_cuda else row_chunks(gate, self._work * gate.shape[1])
        for chunk in chunks:  # in place, so that all rows of a GPU take no more than some
            self._activate(gate[chunk])
        return gate.mul_(up)


class Mixture:
    """Each token goes through its best experts, by a softmax over all. On a CPU an expert computes the tokens that chose it; a row's sum
    is in the order of the experts' numbers, whatever rows are beside it. On a GPU, where nothing may depend on what was chosen, all
    experts compute all tokens."""

    def __init__(self, architecture: Architecture, like: Tensor) -> None:
        a, experts = architecture, architecture.experts
        assert experts
        self._per_token, self._normalised = experts.per_token, experts.normalised
        self._router = Linear(a.hidden, experts.number, like)
        self._gate_up = like.new_empty(experts.number, 2 * experts.intermediate, a.hidden)
        self._down = like.new_empty(experts.number, a.hidden, experts.intermediate)
        self._experts = [Gated(a, like, gate_up, down) for gate_up, down in zip(self._gate_up, self._down, strict=True)]
        self._activate = ACTIVATE[a.activation]

    def parameters(self) -> dict[str, Tensor]:
        return {
            "mlp.gate.weight": self._router.weight,
            "mlp.experts.gate_up_proj": self._gate_up,
            "mlp.experts.down_proj": self._down,
        }

    def pack(self) -> None:
        self._router.pack()
        for expert in self._experts:
            expert.pack()

    def __call__(self, x: Tensor) -> Tensor:
        shares, chosen = self.route(x)
        return self.all(x, shares, chosen) if x.is_cuda else self._chosen(x, shares, chosen)

    def plus(self, residual: Tensor, x: Tensor) -> Tensor:
        return self(x).add_(residual)

    def route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Of each row the shares of the experts that it goes through, float32, and which these are; both [R, per_token]."""
        shares, chosen = self._router(x).float().softmax(-1).topk(self._per_token)
        return shares / shares.sum(-1, keepdim=True) if self._normalised else shares, chosen

    def _chosen(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        flat = chosen.flatten()
        counts = flat.bincount(minlength=len(self._experts)).tolist()
        mixed = torch.zeros_like(x)
        for expert, places in zip(self._experts, torch.split(flat.argsort(stable=True), counts), strict=True):
            if len(places):
                rows = places // self._per_token
                mixed.index_add_(0, rows, expert(x[rows]).mul_(shares.view(-1, 1)[places]))
        return mixed

    def all(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """The same by all experts for all rows."""
        gate, up = (x @ self._gate_up.mT).chunk(2, -1)
        self._activate(gate)
        weights = x.new_zeros(len(x), len(self._experts)).scatter_(1, chosen, shares.to(x.dtype))
        return ((gate * up) @ self._down.mT).mul_(weights.t()[:, :, None]).sum(0)


def _silu(x: Tensor) -> Tensor:
    return F.silu(x, inplace=True)


def _gelu_tanh(x: Tensor) -> Tensor:
    done: Tensor = torch.ops.aten.gelu_.default(x, approximate="tanh")
    return done


ACTIVATE: dict[str, Callable[[Tensor], Tensor]] = {"silu": _silu, "gelu_tanh": _gelu_tanh}
"""In place."""
