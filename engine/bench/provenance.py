"""Where a benchmark's figures come from: what its result file says of the machine, the commit, the day and the settings."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def save(path: Path, result: Mapping[str, Any], settings: Mapping[str, Any], gpu: str | None = None) -> None:
    """Writes ``result`` and its provenance; ``settings`` are those that the benchmark was started with, ``gpu`` is what it ran on, if any."""
    path.write_text(json.dumps({**result, "provenance": provenance(settings, gpu)}, indent=1) + "\n", encoding="utf-8")


def provenance(settings: Mapping[str, Any], gpu: str | None = None) -> dict[str, Any]:
    return {
        "machine": ", ".join(filter(None, (gpu, processor(), f"{os.cpu_count()} cores"))),
        "load": round(os.getloadavg()[0], 2),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "settings": {name: value for name, value in settings.items() if value not in (None, False)},
    }


def processor() -> str:
    """The model's name, as Linux tells it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def commit() -> str | None:
    """Short, with a plus where files differ from it; None outside of a repository."""
    found = _git("rev-parse", "--short=7", "HEAD")
    return found and found + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*arguments: str) -> str | None:
    done = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None
