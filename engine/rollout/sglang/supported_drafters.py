"""Which learned drafters SGLang drafts with as they were trained."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from engine.drafter.export import load_drafter_folder
from engine.drafter.kind import DrafterKind
from engine.drafter.layout import DrafterLayout, without_copies
from engine.drafter.vocabulary import D2T
from engine.errors import ModelError
from engine.models.load import load_config, load_ends, readable

Weights = Mapping[str, Tensor]


def check(weights: Weights, tensor_parallel: int) -> None:
    """ModelError if SGLang would ignore parts of the drafter."""
    layout = DrafterLayout.of(weights)
    mapped = layout.kind == "eagle" and layout.drafted is not None
    lacking = {
        "an EAGLE drafter's own head": layout.head and layout.kind == "eagle",
        "an embedding of its own": layout.embedding,
        "norm_before_residual": layout.norm_before_residual,
        "an EAGLE drafter's draft vocabulary on several GPUs": mapped and tensor_parallel > 1,
    }
    if found := next((name for name, there in lacking.items() if there), None):
        raise ModelError(f"SGLang cannot draft with {found}; set rollout.engine to native, or take another drafter")


def check_folder(drafter: Path, kind: DrafterKind, model: Path, tensor_parallel: int) -> None:
    """As ``check``, of the folder of a drafter of ``kind`` for the target in the folder ``model``. Names alone do not tell: the embedding
    that published drafters have is often a copy of the target's."""
    with readable(model):
        target = load_config(model)
    weights = load_drafter_folder(drafter, target, kind)
    check(without_copies(weights, *load_ends(model)), tensor_parallel)


def follows(weights: Weights) -> bool:
    """Whether it drafts with some rows of the target's head, of which SGLang makes a copy when it starts."""
    layout = DrafterLayout.of(weights)
    return layout.drafted is not None and not layout.head


def alike(weights: Weights, others: Weights) -> bool:
    """Of one layout and draft vocabulary: so far SGLang can change a drafter while it runs."""
    equal = DrafterLayout.of(weights) == DrafterLayout.of(others)
    return equal and (D2T not in weights or torch.equal(weights[D2T].cpu(), others[D2T].cpu()))
