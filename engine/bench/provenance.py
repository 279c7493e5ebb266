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
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2"}
"""By the flag that Linux has for them."""


def save(path: Path, result: Mapping[str, Any], settings: Mapping[str, Any], gpu: str | None = None) -> None:
    """Writes ``result`` and its provenance; ``settings`` are those that the benchmark was started with, ``gpu`` is what it ran on."""
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
    """The model's name, as Linux tells it, and the widest vectors that it has: clouds give several generations the same name."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    has = told.get("flags", "").split()
    vectors = next((f" ({name})" for flag, name in VECTORS.items() if flag in has), "")
    return (told.get("model name") or platform.processor() or platform.machine()) + vectors


def commit() -> str | None:
    """Short, with a plus where files differ from it; None outside of a repository."""
    found = _git("rev-parse", "--short=7", "HEAD")
    return found and found + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*arguments: str) -> str | None:
    done = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None
