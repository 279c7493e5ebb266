"""One part in a process of its own, which may die or be killed without harm to the others: ``python -m engine.bench.gpu.process PART``."""

import argparse
import importlib
import sys
import time
import traceback
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from engine.bench.gpu.parts import EMULATED, FULL, MINUTES, Part
from engine.bench.provenance import save

RUNNING, DONE = "cut off", "done"
"""``ended`` of a part: what it says until the end, and then."""
SHOWN = 2000


def measure(name: str, file: Path, scratch: Path, emulated: bool, seconds: float = inf) -> str:
    """Writes ``file`` whenever the part has found something, and how it has ended, which is returned: a part that lacks a package, or
    fails, says so. After ``seconds`` it will be cut off."""
    began = time.monotonic()
    kept: dict[str, Any] = {}
    gpu = None if emulated else _gpu()
    aside = file.with_suffix(".part")  # who is killed while it writes leaves what was there

    def tell(result: Mapping[str, Any], ended: str = RUNNING) -> None:
        kept.update(result)
        save(aside, {**kept, "ended": ended, "seconds": round(time.monotonic() - began, 1)}, {"emulate": emulated}, gpu)
        aside.replace(file)

    tell({})
    part = Part(EMULATED if emulated else FULL, scratch, tell, began + seconds)
    try:
        importlib.import_module(f"engine.bench.gpu.{name}").run(part)
        ended = DONE
    except ModuleNotFoundError as error:
        ended = f"there is no package {(error.name or str(error)).partition('.')[0]}"
    except Exception as error:  # whatever it is, the next part may do better
        traceback.print_exc()
        ended = f"{type(error).__name__}: {error}"[:SHOWN]
    tell({}, ended)
    return ended


def _gpu() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=MINUTES)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=inf)
    parser.add_argument("--emulate", action="store_true")
    options = parser.parse_args()
    ended = measure(options.part, options.file, options.scratch, options.emulate, options.seconds)
    print(f"{options.part}: {ended}", flush=True)
    return 0 if ended == DONE else 1


if __name__ == "__main__":
    sys.exit(main())
