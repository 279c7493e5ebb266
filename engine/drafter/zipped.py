"""A folder as a zip that is the same for the same files."""

import shutil
import zipfile
from pathlib import Path

from engine.checkpoint.verification import sha256_of

EPOCH = (1980, 1, 1, 0, 0, 0)


def write_zip(folder: Path, path: Path) -> str:
    """Zips the files of ``folder``, which may be larger than the memory; equal files give equal bytes. Returns the zip's SHA-256."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(folder.iterdir()):
            info = zipfile.ZipInfo(f"{folder.name}/{file.name}", EPOCH)
            info.file_size = file.stat().st_size
            with file.open("rb") as source, archive.open(info, "w") as member:
                shutil.copyfileobj(source, member)
    return sha256_of(path)
