"""The files that a drafter folder, ours or another's, keeps its weights in. Needs no torch to find them."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import ModelError
from engine.models.folder import indexed_files

if TYPE_CHECKING:
    from torch import Tensor

WHOLE = ("model.safetensors", "pytorch_model.bin", "pytorch_model.pth", "model.pth", "model.bin")
INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def drafter_files(folder: Path) -> list[Path]:
    """All files of the weights, safetensors or pickled tensors; ModelError if ``folder`` is not a local folder that has them."""
    if not folder.is_dir():
        raise ModelError(f"drafter {folder}: not a local folder")
    for name in WHOLE:
        if (folder / name).is_file():
            return [folder / name]
    index = next((folder / name for name in INDICES if (folder / name).is_file()), None)
    if index is None:
        raise ModelError(f"drafter {folder}: no model.safetensors in it, nor {', '.join((*WHOLE[1:], *INDICES))}")
    return indexed_files(index)


def read_tensors(folder: Path) -> "dict[str, Tensor]":
    """Of all files, as they are. ModelError if one is unreadable or holds anything but tensors; no code of a pickle is run."""
    return {name: tensor for file in drafter_files(folder) for name, tensor in _tensors(file).items()}


def _tensors(file: Path) -> "dict[str, Tensor]":
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if file.suffix == ".safetensors":
        try:
            return load_file(file)
        except SafetensorError as error:
            raise ModelError(f"drafter {file.parent}: {file.name} is not readable: {error}") from None
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged pickle leads to; of one that is cut off OSError
        raise ModelError(
            f"drafter {file.parent}: {file.name} holds more than plain tensors, or is damaged ({_reason(error)}); save it with safetensors"
        ) from None
    if not isinstance(state, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise ModelError(f"drafter {file.parent}: {file.name} is not a dict of tensors by name; save it with safetensors")
    if other := next((name for name, tensor in state.items() if not _plain(tensor)), None):
        raise ModelError(f"drafter {file.parent}: {file.name}: {other} is no plain tensor (a sparse one?); save it with safetensors")
    return {str(name): tensor.detach() for name, tensor in state.items()}


def _reason(error: Exception) -> str:
    """In a line, without torch's advice to run the code in the file."""
    said = re.split(r"WeightsUnpickler error:|trusted source\.", str(error))[-1].partition(" Please use ")[0].strip().splitlines()
    return said[0] if said else type(error).__name__


def _plain(tensor: "Tensor") -> bool:
    """Whether it has a number of its own at each place: not one that is said to be repeated beyond all memory."""
    import torch

    dense = tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_meta
    return dense and tensor.untyped_storage().nbytes() >= tensor.numel() * tensor.element_size()
