"""What every part of the configuration is made of."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

PATH_BYTES = 2048
"""Half of what Linux takes: the names of the files in a folder come after it."""
NAME_BYTES = 255


def _nameable(path: Path) -> Path:
    named = os.fsencode(path)
    if len(named) > PATH_BYTES or any(len(name) > NAME_BYTES for name in named.split(b"/")):
        raise ValueError(f"no path: one has at most {PATH_BYTES} bytes here, and {NAME_BYTES} between two slashes; use a shorter one")
    return path


def _nameable_text(path: str) -> str:
    _nameable(Path(path))
    return path


HostPath = Annotated[Path, AfterValidator(_nameable)]
HostPathText = Annotated[str, AfterValidator(_nameable_text)]
"""A path, or a name that stands for something else."""


class Section(BaseModel):
    """A closed, immutable part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
