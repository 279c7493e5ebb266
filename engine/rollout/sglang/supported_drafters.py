"""Which learned drafters SGLang drafts with as they were trained."""

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.drafter.layout import DrafterLayout
from engine.drafter.vocabulary import D2T
from engine.errors import ModelError

Weights = Mapping[str, Tensor]


def check(weights: Weights, started: Weights | None) -> None:
    """ModelError if SGLang would ignore parts of the drafter, or hold on to the target's when the target changes; or if it differs from
    the one that SGLang was ``started`` with in more than its values."""
    layout = DrafterLayout.of(weights)
    lacking = {
        "a draft vocabulary and no head of its own": layout.drafted is not None and not layout.head,
        "an EAGLE drafter's own head": layout.head and layout.kind == "eagle",
        "an embedding of its own": layout.embedding,
        "norm_before_residual": layout.norm_before_residual,
    }
    if found := next((name for name, there in lacking.items() if there), None):
        raise ModelError(f"SGLang cannot draft with {found} while the target is trained; set rollout.engine to native")
    if started is not None and not _equal(weights, started):
        raise ModelError("SGLang was started with a drafter of another layout or draft vocabulary; start a run with this one")


def _equal(weights: Weights, others: Weights) -> bool:
    equal = DrafterLayout.of(weights) == DrafterLayout.of(others)
    return equal and (D2T not in weights or torch.equal(weights[D2T].cpu(), others[D2T].cpu()))
