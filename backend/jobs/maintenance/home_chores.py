"""Work on what a home has on disk: copying artifacts, checking checkpoints. It takes long, so each kind has a thread of its own, in which
it holds up no sign of life; and one of the workers that share a home does it at a time, as the others would read the same files."""

import logging
import threading
from collections.abc import Callable

from backend.settings import Settings
from backend.storage.file_lock import file_lock

logger = logging.getLogger(__name__)


def keep_doing(name: str, work: Callable[[], object], settings: Settings, stopping: threading.Event) -> None:
    """Does ``work`` again and again while no other process of this home does what has this ``name``."""
    while not stopping.wait(settings.sweep_seconds):
        try:
            with file_lock(settings.home / f"{name}.lock") as ours:
                if ours:
                    work()
        except Exception:  # what could not be done now is found again
            logger.exception("%s failed; it goes on", name)
