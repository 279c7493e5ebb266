"""A process beside the test's own: together they are the two ranks of a learner, on a CPU."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.multiprocessing

ROOT = Path(__file__).parent.parent
BY_NAME = "import torch.multiprocessing; torch.multiprocessing.set_sharing_strategy('file_system')\n"


@contextmanager
def shared_by_name() -> Iterator[None]:
    """As CUDA IPC does it: by default a CPU's memory is shared by a file descriptor, which only a child gets."""
    shared: Any = torch.multiprocessing
    before = shared.get_sharing_strategy()
    shared.set_sharing_strategy("file_system")
    yield
    shared.set_sharing_strategy(before)


@contextmanager
def second_rank(program: str, *arguments: str) -> Iterator[None]:
    """Runs ``program``, which is to join this process; it must have ended well by the end of the block."""
    with shared_by_name(), subprocess.Popen([sys.executable, "-c", BY_NAME + program, *arguments], cwd=ROOT) as process:
        try:
            yield
            assert process.wait(timeout=120) == 0
        finally:
            process.kill()
            if dist.is_initialized():
                dist.destroy_process_group()
