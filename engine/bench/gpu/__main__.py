"""``make gpu``: everything that is to be measured once there is a GPU, in order of worth, within so many minutes.

Each part writes a file of its own whenever it has found something, so that a run that is cut off leaves what it had.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.bench.gpu.parts import MINUTES
from engine.bench.provenance import ROOT

RESULTS = ROOT / "tests" / "gpu" / "results"
PATIENCE = 10
"""How much longer a part may take where it is rehearsed on a processor."""
SPARE_SECONDS = 10
"""At the end, for what is still to be written."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; the exit code is 0 if every part was measured to its end."""
    parser = argparse.ArgumentParser(prog="make gpu", description="Measure Longtail on a GPU")
    parser.add_argument("--minutes", type=float, default=25.0, help="to end after (default 25)")
    parser.add_argument("--emulate", action="store_true", help="rehearse it without a GPU, in small sizes")
    parser.add_argument("--parts", nargs="+", choices=MINUTES, default=list(MINUTES), help="only these, in this order")
    parser.add_argument("--out", type=Path, help=f"folder for results (default {RESULTS.relative_to(ROOT)}; none with --emulate)")
    options = parser.parse_args(arguments)
    if options.minutes <= 0:
        parser.error("--minutes: give more than 0")
    if options.emulate and options.out is None:
        parser.error("--out: name a folder; what is rehearsed is no result")
    if not options.emulate and not gpu():
        parser.error("there is no GPU that PyTorch sees here; --emulate rehearses without one")
    out: Path = options.out or RESULTS
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="longtail-gpu-") as scratch:
        states = measure(options.parts, out, Path(scratch), options.minutes * 60, options.emulate)
    return 0 if all(state == 0 for state in states) else 1


def gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def measure(parts: Sequence[str], out: Path, scratch: Path, seconds: float, emulated: bool) -> list[int]:
    """The exit code of each part's process. A part gets its own minutes, or what is left of ``seconds``; without any it is left out."""
    ending, states = time.monotonic() + seconds, []
    for name in parts:
        left = ending - time.monotonic() - SPARE_SECONDS
        if left <= 0:
            print(f"{name}: no time is left", flush=True)
            states.append(1)
            continue
        options = ["--file", str(out / f"gpu_{name}.json"), "--scratch", str(scratch), *(["--emulate"] if emulated else [])]
        states.append(
            _run(
                [sys.executable, "-m", "engine.bench.gpu.process", name, *options],
                min(left, 60 * MINUTES[name] * (PATIENCE if emulated else 1)),
            )
        )
    return states


def _run(command: Sequence[str], seconds: float) -> int:
    """With whatever it has started, it is killed after ``seconds``."""
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            print(f"{command[3]}: cut off after {seconds:.0f} s", flush=True)
            return 1
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
