"""The state of a learner in a folder, by torch.distributed.checkpoint: each worker writes and reads its own shards.

What is saved knows nothing of how many workers there were, nor whether they held shards or replicas: any number of them can go on.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from engine.checkpoint.storage import unwritten
from engine.errors import CheckpointError

LearnerState = Mapping[str, Any]

warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")  # so it is meant


def write(state: LearnerState, folder: Path, group: dist.ProcessGroup | None) -> None:
    """Saves ``Learner.state``. All workers of ``group`` call it together; without one it is this worker's alone. CheckpointError, on all of
    them, if one cannot write."""
    try:
        save(dict(state), checkpoint_id=folder, process_group=group, no_dist=group is None)
    except CheckpointException as error:
        faults = [fault for fault, _ in error.failures.values()]
        raise unwritten(folder, faults[0]) from None


def read(state: LearnerState, folder: Path, group: dist.ProcessGroup | None) -> None:
    """Fills the tensors of ``state`` with what was saved. CheckpointError, and nothing changed, if that is of another model, or if there
    is nothing: earlier versions saved the policy otherwise."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: there is no policy; a checkpoint of an earlier version cannot be gone on from: start a new run")
    saved = FileSystemReader(folder).read_metadata().state_dict_metadata
    sizes = {name.removeprefix("model."): entry.size for name, entry in saved.items() if name.startswith("model.")}  # type: ignore[union-attr]
    if sizes != {name: weight.shape for name, weight in state["model"].items()}:
        raise CheckpointError("the checkpoint holds the weights of another model; start a new run, or give the model it came from")
    load(dict(state), checkpoint_id=folder, process_group=group, no_dist=group is None)
