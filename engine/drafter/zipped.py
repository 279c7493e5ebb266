"""A folder as a zip that is the same for the same files."""

import zipfile
from hashlib import sha256
from pathlib import Path

EPOCH = (1980, 1, 1, 0, 0, 0)


def write_zip(folder: Path, path: Path) -> str:
    """Zips the files of ``folder``; equal files give equal bytes. Returns the zip's SHA-256."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(folder.iterdir()):
            archive.writestr(zipfile.ZipInfo(f"{folder.name}/{file.name}", EPOCH), file.read_bytes())
    return sha256(path.read_bytes()).hexdigest()
