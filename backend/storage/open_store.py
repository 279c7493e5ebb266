"""The artifact store that the settings name."""

from functools import lru_cache
from pathlib import Path

from backend.settings import Settings
from backend.storage.folder_store import FolderStore
from backend.storage.store import Store


@lru_cache(maxsize=8)
def open_store(settings: Settings) -> Store:
    """The store that ``settings`` name."""
    if "://" not in settings.artifact_store:
        return FolderStore(Path(settings.artifact_store or settings.home / "artifacts").expanduser().absolute())
    from backend.storage.remote_store import RemoteStore

    return RemoteStore(settings.artifact_store, settings.home / "incoming")
