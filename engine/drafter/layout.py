"""What parts a drafter has, found from the names and shapes of its weights: the same in training, in the engine and in files."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.drafter.kind import DrafterKind, weights_kind
from engine.drafter.vocabulary import D2T, vocabulary_of

HEAD, EMBEDDING, BIAS = "lm_head.weight", "embed_tokens.weight", "fc.bias"
FC_NORMS = tuple(f"fc_norm.{place}.weight" for place in range(3))
NORM_OUTPUT, NORM_BEFORE_RESIDUAL = "norm_output", "norm_before_residual"
FLAGS = (NORM_OUTPUT, NORM_BEFORE_RESIDUAL)
"""In config.json these are true; among weights, which travel without one, a tensor [1] of that name is there."""
ROPE_THETA = "rope_theta"
IN_CONFIG = (*FLAGS, ROPE_THETA)
"""What is a whole number among weights, and in a folder stands in config.json."""


@dataclass(frozen=True)
class DrafterLayout:
    """``drafted``: the tokens that it drafts from; None: all that the target has. ``head`` and ``embedding``: it has its own, in place of
    the target's; the head is trained, the embedding is not. ``bias``: of EAGLE's ``fc``. ``rope_theta``: the base of unscaled rotary
    positions of its own; None: it has the target's.

    Of EAGLE-3: ``fc_norm`` norms each of the target's hidden states before they are fused, and ``norm_output`` feeds back normed features
    (both are EAGLE-3.1's); ``norm_before_residual`` has the normed feature as the layer's residual.
    """

    kind: DrafterKind = "eagle"
    drafted: int | None = None
    head: bool = False
    embedding: bool = False
    bias: bool = False
    rope_theta: int | None = None
    fc_norm: bool = False
    norm_output: bool = False
    norm_before_residual: bool = False

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> "DrafterLayout":
        """Of weights with the names of ``Drafter.state_dict``."""
        return cls(
            kind=weights_kind(weights.keys()),
            drafted=len(weights[D2T]) if D2T in weights else None,
            head=HEAD in weights,
            embedding=EMBEDDING in weights,
            bias=BIAS in weights,
            rope_theta=int(weights[ROPE_THETA]) if ROPE_THETA in weights else None,
            fc_norm=FC_NORMS[0] in weights,
            norm_output=NORM_OUTPUT in weights,
            norm_before_residual=NORM_BEFORE_RESIDUAL in weights,
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """Those of ``FLAGS`` that are set."""
        return tuple(flag for flag in FLAGS if getattr(self, flag))

    @property
    def in_config(self) -> dict[str, int]:
        """Those of ``IN_CONFIG`` that it has, as weights have them."""
        theta = {} if self.rope_theta is None else {ROPE_THETA: self.rope_theta}
        return dict.fromkeys(self.flags, 1) | theta


def without_copies(weights: Mapping[str, Tensor], embedding: Tensor, head: Tensor) -> dict[str, Tensor]:
    """``weights`` without an own embedding or head that is only a copy of the target's, both [V, H]: such a drafter follows its target."""
    vocabulary = vocabulary_of(weights)
    rows = head if vocabulary is None else head[vocabulary.to(head.device)]
    theirs = {EMBEDDING: embedding, HEAD: rows}
    return {name: weight for name, weight in weights.items() if name not in theirs or not _copied(weight, theirs[name])}


def _copied(weight: Tensor, original: Tensor) -> bool:
    """Perhaps on its way through bfloat16 or float16."""
    if weight.shape != original.shape:
        return False
    ours, theirs = weight.to(original.device).float(), original.detach()
    return any(bool((ours == theirs.to(dtype).float()).all()) for dtype in (theirs.dtype, torch.bfloat16, torch.float16))
