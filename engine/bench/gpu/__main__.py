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
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import psutil

from engine.bench.gpu.parts import MINUTES
from engine.bench.provenance import ROOT
from engine.interruption import INTERRUPTED, interruptible

RESULTS = ROOT / "tests" / "gpu" / "results"
SPARE_SECONDS = 10
"""At the end, for what is still to be written."""
GONE_SECONDS = 10
"""For processes that were killed to be gone."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; the exit code is 0 if every part was measured to its end."""
    parser = argparse.ArgumentParser(prog="make gpu", description="Measure Longtail on a GPU")
    parser.add_argument("--minutes", type=float, default=25.0, help="to end after (default 25)")
    parser.add_argument("--emulate", action="store_true", help="rehearse it without a GPU, in small sizes")
    parser.add_argument("--parts", nargs="+", choices=MINUTES, default=list(MINUTES), help="only these, in this order")
    parser.add_argument("--out", type=Path, help=f"folder for results (default {RESULTS.relative_to(ROOT)}; none with --emulate)")
    options = parser.parse_args(arguments)
    if not options.minutes > 0:
        parser.error("--minutes: give more than 0")
    if options.emulate and options.out is None:
        parser.error("--out: name a folder; what is rehearsed is no result")
    if not options.emulate and not gpu():
        parser.error("there is no GPU that PyTorch sees here; --emulate rehearses without one")
    out: Path = (options.out or RESULTS).absolute()  # parts run in the folder of the sources
    try:
        out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=out).close()
    except OSError as error:
        parser.error(f"--out: nothing can be written to {out}: {error}")
    with suppress(KeyboardInterrupt), interruptible(), TemporaryDirectory(prefix="longtail-gpu-") as scratch:
        states = measure(options.parts, out, Path(scratch), options.minutes * 60, options.emulate)
        return 0 if all(state == 0 for state in states) else 1
    return INTERRUPTED


def gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def measure(parts: Sequence[str], out: Path, scratch: Path, seconds: float, emulated: bool) -> list[int]:
    """The exit code of each part's process. Of the time that is left a part gets a share by its minutes and those of the parts behind it:
    so none is left out, and what one does not need is the others'."""
    ending, states = time.monotonic() + seconds, []
    for place, name in enumerate(parts):
        left = ending - time.monotonic() - SPARE_SECONDS
        share = left * MINUTES[name] / sum(MINUTES[each] for each in parts[place:])
        if share <= 0:
            print(f"{name}: no time is left", flush=True)
            states.append(1)
            continue
        files = ["--file", str(out / f"gpu_{name}.json"), "--scratch", str(scratch)]
        options = [*files, "--seconds", str(share), *(["--emulate"] if emulated else [])]
        states.append(_run([sys.executable, "-m", "engine.bench.gpu.process", name, *options], share))
    return states


def _run(command: Sequence[str], seconds: float) -> int:
    """With whatever it has started, it is killed after ``seconds``: an SGLang that stayed would have the GPU of the next part."""
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            print(f"{command[3]}: cut off after {seconds:.0f} s", flush=True)
            return 1
        finally:
            if process.poll() is None:
                family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
                for member in family:
                    with suppress(psutil.NoSuchProcess):
                        member.kill()
                psutil.wait_procs(family, GONE_SECONDS)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what a part has left that ended by itself


if __name__ == "__main__":
    sys.exit(main())
