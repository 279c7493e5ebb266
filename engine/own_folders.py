"""Temporary folders that carry the number of their process in their name, so that those of killed processes can be told."""

import os
import shutil
import tempfile
from pathlib import Path


def new_folder(prefix: str) -> Path:
    """A folder of this process's own; its path is short, as those of sockets, which end at 107 bytes, must be."""
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-"))


def sweep(prefix: str) -> None:
    """Removes the folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        owner = folder.name.removeprefix(prefix).split("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)
