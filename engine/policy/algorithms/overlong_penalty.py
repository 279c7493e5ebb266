"""What a response that comes close to the length limit loses of its reward (DAPO)."""

from torch import Tensor


def overlong_penalty(lengths: Tensor, limit: int, share: float) -> Tensor:
    """DAPO's soft overlong punishment (arXiv 2503.14476, equation 13), in [-1, 0], of the shape of ``lengths`` (tokens).

    The last ``share`` of ``limit`` is the buffer: 0 up to it, falling in a straight line to -1 at the limit. No buffer, no penalty.
    """
    buffer = share * limit
    if not buffer:
        return lengths.double() * 0
    return ((limit - buffer - lengths.double()) / buffer).clamp(-1.0, 0.0)
