"""The virtual environment of this checkout, .venv."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYPROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "constraints.txt"
SHOWN_LINES = 15


class SetupError(Exception):
    """What is missing, and what to do."""


def say(message: str) -> None:
    print(f"bootstrap: {message}", flush=True)


def tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-SHOWN_LINES:])


def program(name: str) -> str:
    """Path of a command in .venv."""
    return str(VENV / "bin" / name)


def environment() -> dict[str, str]:
    """The caller's without what would leak other installations into .venv, or make every process compile all packages anew."""
    foreign = ("PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in foreign}
    return {**kept, "VIRTUAL_ENV": str(VENV), "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def usable(venv: Path) -> bool:
    """Whether ``venv`` runs, has pip, and still lies where it was made (its scripts hold absolute paths)."""
    activate = venv / "bin" / "activate"
    if not activate.is_file() or str(venv) not in activate.read_text(encoding="utf-8"):
        return False
    try:
        probe = [str(venv / "bin" / "python"), "-c", "import pip, sys; print(sys.prefix)"]
        result = subprocess.run(probe, capture_output=True, text=True, env=environment(), check=False)
    except OSError:
        return False
    return result.returncode == 0 and Path(result.stdout.strip()).resolve() == venv.resolve()


def create(venv: Path) -> None:
    """Makes ``venv`` anew with the standard library, or with virtualenv where Debian has left ensurepip out."""
    say(f"creating {venv.name}")
    failures = []
    for module in ("venv", "virtualenv"):
        command = [sys.executable, "-m", module, "--clear", str(venv)]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if result.returncode == 0 and usable(venv):
            return
        failures.append(result.stdout)
    if "ensurepip" in failures[0]:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        raise SetupError(f"this Python cannot make virtual environments; install what it lacks and start again: apt-get install {package}")
    raise SetupError(f"cannot create {venv}:\n{tail(failures[0])}")
