"""``python -m engine.models.hub OWNER/NAME FOLDER``: a model of the Hugging Face hub, in a process that may be killed at any time."""

import errno
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import ModelError
from engine.models.folder import check_architecture, check_tokenizer, read_config, read_facts

SMALL_FILES = ["*.json", "*.jinja", "*.txt", "LICENSE*", "README.md"]
FILES = [*SMALL_FILES, "model*.safetensors"]
FULL = (errno.ENOSPC, errno.EDQUOT)
LOOKS = 0.5
"""Seconds between two looks whether the parent is still there."""


def download(repository: str, folder: Path) -> None:
    """As ``from_hub``, in this process, which does not end before what has begun of it does."""
    from httpx import HTTPError
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, RepositoryNotFoundError

    try:
        for patterns, check in (["config.json"], _check_config), (SMALL_FILES, check_tokenizer), (FILES, read_facts):
            snapshot_download(repository, local_dir=folder, allow_patterns=patterns, ignore_patterns=["*/*"])
            _checked(folder, check)
    except RepositoryNotFoundError:
        raise ModelError(f"the Hugging Face hub shows no model {repository}; if it is a gated one: hf auth login") from None
    except HFValidationError as error:
        raise ModelError(f"{repository} cannot be a model's name on the Hugging Face hub: {error}") from None
    except (HTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        raise ModelError(
            f"{repository} cannot be had from the Hugging Face hub ({str(error).partition(chr(10))[0]}); try again, "
            "or download its folder where that works, and: longtail models add FOLDER"
        ) from None
    except OSError as error:
        if error.errno in FULL:  # whoever makes room would not look for it here
            shutil.rmtree(folder, ignore_errors=True)
        raise ModelError(f"{folder} cannot be written: {error.strerror or error}") from None
    shutil.rmtree(folder / ".cache", ignore_errors=True)


def _check_config(folder: Path) -> None:
    check_architecture(folder, read_config(folder))


def _checked(folder: Path, check: Callable[[Path], object]) -> None:
    """What is of no use goes at once, if that can be told before the weights come."""
    try:
        check(folder)
    except ModelError:
        shutil.rmtree(folder)
        raise


def _end_with(parent: int) -> None:
    """Whoever began the download holds the lock of its folder, and may be killed."""
    while os.getppid() == parent:
        time.sleep(LOOKS)
    os._exit(1)


def main(repository: str, folder: str) -> int:
    """The exit code; what a user should read goes to standard output, as progress goes to the other one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # else it waits for its threads, and then has a traceback to show
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        download(repository, Path(folder))
    except ModelError as error:
        print(error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
