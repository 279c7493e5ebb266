"""Tensors on their way to host memory."""

import torch
from torch import Tensor

ROWS = 1024
"""That are converted at a time: more would need as much again on the GPU."""


class HostCopy:
    """Rows of a tensor in bfloat16, in host memory. A GPU writes them into pinned memory when their turn comes, and is not waited for until
    ``wait``. What comes later on its stream may change the tensor."""

    def __init__(self, source: Tensor, rows: slice | Tensor = slice(None)) -> None:
        """Of ``source`` [R, W] the ``rows``; a tensor [n] of them lies where ``source`` does."""
        whole = source[rows] if isinstance(rows, slice) else rows
        self.memory = torch.empty(len(whole), source.shape[1], dtype=torch.bfloat16, pin_memory=source.is_cuda)
        """Not to be read before ``wait``."""
        for there, part in zip(torch.split(self.memory, ROWS), torch.split(whole, ROWS), strict=True):
            there.copy_((part if isinstance(rows, slice) else source[part]).to(torch.bfloat16), non_blocking=True)
        self._written: torch.cuda.Event | None = None
        if source.is_cuda:
            self._written = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._written.record()

    def wait(self) -> None:
        """Until the rows are there."""
        if self._written:
            self._written.synchronize()

    def take(self) -> Tensor:
        """The rows [n, W], in memory that is theirs alone and not pinned, once they are there. To be called once."""
        self.wait()
        return self.memory.clone() if self._written else self.memory
