"""An environment that measures on a GPU, with the PyTorch that the machine has."""

from __future__ import annotations

import re
import site
import subprocess
import sys
from pathlib import Path

from project_venv import SetupError, say, tail

MEASURING = (
    "pydantic",
    "pydantic-settings",
    "pyyaml",
    "safetensors",
    "psutil",
    "nvidia-ml-py",
    "gguf",
    "math-verify",
    "pyarrow",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
)
"""What measuring on a GPU imports, besides torch and transformers, which the machine brings."""


def beside_own_packages(venv: Path, wheels: str | None) -> Path:
    """The Python of ``venv``, made of this one with all that it has installed, and what of MEASURING it lacked, out of the folder
    ``wheels`` or the index. What cannot be had is said: the parts that need it will be left out. SetupError if there is no such folder."""
    if wheels is not None and not Path(wheels).is_dir():
        raise SetupError(f"LONGTAIL_WHEELS={wheels}: there is no such folder")
    python = venv / "bin" / "python"
    if not python.exists():
        made = subprocess.run(
            [sys.executable, "-m", "venv", "--system-site-packages", str(venv)], capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            say(f"this Python cannot make virtual environments, so nothing is installed:\n{tail(made.stdout + made.stderr)}")
            return Path(sys.executable)
    see_packages_of_this_python(venv)
    source = ["--no-index", "--find-links", wheels] if wheels else []
    for name in absent(python, MEASURING):
        command = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", *source, name]
        if subprocess.run(command, capture_output=True, text=True, check=False).returncode != 0:
            say(f"{name} cannot be had here")
    return python


def see_packages_of_this_python(venv: Path) -> None:
    """``venv`` sees what this Python has installed, even if that is an environment, too: by itself it sees what both are made of."""
    folder = next(venv.glob("lib/python*/site-packages"))
    (folder / "packages_of_its_maker.pth").write_text("\n".join(site.getsitepackages()) + "\n", encoding="utf-8")


def absent(python: Path, names: tuple[str, ...]) -> list[str]:
    """Those of the packages ``names`` that ``python`` does not see."""
    asked = "import sys\nfrom importlib.metadata import distributions\nprint(*(found.metadata['Name'] for found in distributions()))"
    seen = subprocess.run([str(python), "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    normal = {re.sub(r"[-_.]+", "-", name).lower() for name in seen}
    return [name for name in names if name not in normal]
