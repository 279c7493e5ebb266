"""Drafters of every layout, with random weights."""

from collections.abc import Mapping

import torch
from test_draft_vocabulary import SOME
from torch import Tensor
from transformers import PretrainedConfig

from engine.drafter.eagle3 import make_drafter
from engine.drafter.layout import DrafterLayout

LAYOUTS = {
    "eagle": DrafterLayout(),
    "eagle, biased, with its embedding": DrafterLayout(bias=True, embedding=True),
    "eagle3": DrafterLayout("eagle3"),
    "eagle3 of some tokens": DrafterLayout("eagle3", 12),
    "eagle3 of some tokens, with its ends": DrafterLayout("eagle3", 12, head=True, embedding=True),
    "eagle3 with its head": DrafterLayout("eagle3", head=True),
    "eagle3.1": DrafterLayout("eagle3", 12, head=True, fc_norm=True, norm_output=True),
    "eagle of its own base": DrafterLayout(rope_theta=500_000),
    "eagle3 of its own base": DrafterLayout("eagle3", 12, head=True, rope_theta=1000),
    "normed residual": DrafterLayout("eagle3", 12, head=True, norm_before_residual=True),
}


def random_weights(layout: DrafterLayout, config: PretrainedConfig) -> dict[str, Tensor]:
    """With every part of ``layout`` in play."""
    torch.manual_seed(0)
    drafter = make_drafter(layout.kind, config, SOME if layout.drafted else None, layout)
    weights = drafter.state_dict()
    return {name: tensor + 0.1 * torch.randn_like(tensor) if tensor.is_floating_point() else tensor for name, tensor in weights.items()}


def equal(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
