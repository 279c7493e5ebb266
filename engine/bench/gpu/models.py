"""The models of ``make gpu``, made on the spot: there is no hub where it runs."""

from pathlib import Path

import torch
from transformers import PreTrainedModel

from engine.bench.gpu.parts import Part, Scale
from engine.bench.random_model import random_model
from engine.bench.testbed import Bed
from engine.models.enlarge import enlarge, enlarge_drafter
from engine.models.folder import DRAFTER, TINY
from engine.planner.model_shape import shape


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def folders(part: Part, name: str) -> tuple[Path, Path]:
    """Of the model of this name, and of its drafter. They draft and are drafted for as ``tiny`` is, whose function they have.
    Their heads are their own, as those of large models are, which keeps the size of what a drafter is trained on."""
    width, layers = part.scale.models[name]
    if width == 1:
        return TINY, DRAFTER
    model, drafter = part.scratch / name, part.scratch / f"{name}-drafter"
    if not model.is_dir():
        enlarge(TINY, part.scratch / f"{name}.part", width, layers, device=device(), own_head=True)
        (part.scratch / f"{name}.part").rename(model)
    if not drafter.is_dir():
        enlarge_drafter(DRAFTER, part.scratch / f"{drafter.name}.part", width, device=device(), own_head=True)
        (part.scratch / f"{drafter.name}.part").rename(drafter)
    return model, drafter


def bed(part: Part, name: str) -> Bed:
    """On the GPU, if there is one."""
    model, drafter = folders(part, name)
    return Bed(str(model), device=device(), drafter_from=drafter)


def random(scale: Scale, dtype: torch.dtype) -> PreTrainedModel:
    """With random weights, and the shape of a real model."""
    return random_model(shape(str(TINY) if scale.emulated else scale.shape), dtype, device())
