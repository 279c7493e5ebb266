"""A process in which Triton's kernels run on the CPU, by its interpreter: ``python -m interpreted_kernels FILE`` reads a list of calls of
``page_kernel.attend`` from a file of torch's, and writes what they return in their place."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

TESTS = Path(__file__).parent


def attend(calls: list[tuple[Any, ...]], folder: Path) -> list[Tensor]:
    """What each of the calls returns, in a process of their own: Triton interprets all of its kernels or none."""
    file = folder / "calls.pt"
    torch.save(calls, file)
    path = os.pathsep.join(filter(None, (str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "interpreted_kernels", str(file)]
    subprocess.run(command, env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path}, check=True, timeout=600)
    found: list[Tensor] = torch.load(file)
    return found


def main() -> None:
    from engine.rollout.native.layout import page_kernel

    file = Path(sys.argv[1])
    torch.save([page_kernel.attend(*call) for call in torch.load(file)], file)


if __name__ == "__main__":
    main()
