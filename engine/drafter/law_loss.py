"""The losses of TLT section 4 on whole laws of tokens, a block of rows at a time: at real vocabularies they are most of a training step,
and a block's logits stay in a processor's cache and are gone before the next one's."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

ROWS = 128
ELEMENTS = 2**26
"""Of a block on a GPU."""
TINY = torch.finfo(torch.float32).tiny


def law_loss(predicted: Tensor, head: Tensor, law: Tensor, rows: Tensor | None, token_weight: float, reverse_kl_weight: float) -> Tensor:
    """Mean over n positions of ``token_weight`` * CE(p, q) + ``reverse_kl_weight`` * KL(q, p), for q = softmax of ``predicted`` [n, H] by
    ``head`` [D, H] and the laws p, ``rows`` [n] of ``law`` [N, D] or, if None, all of them."""
    loss: Tensor = _LawLoss.apply(predicted, head, law, rows, token_weight, reverse_kl_weight)  # type: ignore[no-untyped-call]
    return loss


class _LawLoss(torch.autograd.Function):
    """Computes the gradients with the loss, for both need the same q."""

    @staticmethod
    def forward(
        ctx: Any, predicted: Tensor, head: Tensor, law: Tensor, rows: Tensor | None, token_weight: float, reverse_kl_weight: float
    ) -> Tensor:
        ctx.types = predicted.dtype, head.dtype
        learns, count = ctx.needs_input_grad[1], len(predicted)
        half = head.to(torch.bfloat16) if torch.is_autocast_enabled(predicted.device.type) else head
        gradient = torch.empty_like(predicted)
        of_head = torch.zeros_like(head, dtype=torch.float32) if learns else None
        total = predicted.new_zeros((), dtype=torch.float32)
        with torch.autocast(predicted.device.type, enabled=False):
            for block in row_blocks(count, head):
                x = _full(predicted[block].to(half.dtype), block)
                p = _full(law[block] if rows is None else law[rows[block]], block)
                loss, slope = _block(torch.log_softmax((x @ half.t()).float(), -1), p, token_weight, reverse_kl_weight)
                total += loss[: min(block.stop, count) - block.start].sum()
                slope = slope.to(half.dtype)
                gradient[block] = (slope @ half)[: count - block.start]
                if of_head is not None:
                    of_head += slope.t() @ x
        ctx.save_for_backward(gradient.div_(count), None if of_head is None else of_head.div_(count))
        return total / count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (None if each is None else (each * outer[0]).to(kind) for each, kind in zip(ctx.saved_tensors, ctx.types, strict=True))
        return *gradients, None, None, None, None


def row_blocks(count: int, head: Tensor) -> Iterator[slice]:
    """Of ``count`` rows, each as long as ``head`` [D, H] has rows. All blocks have one size, though the last one has not as many rows:
    what oneDNN prepares for each shape takes time and memory."""
    size = max(ROWS, ELEMENTS // len(head)) if head.is_cuda else ROWS
    for start in range(0, count, size):
        yield slice(start, start + size)


def _full(rows: Tensor, block: slice) -> Tensor:
    """With zeros up to the size of the block."""
    missing = block.stop - block.start - len(rows)
    return pad(rows, (0, 0, 0, missing)) if missing else rows


def _block(logq: Tensor, p: Tensor, token_weight: float, reverse_kl_weight: float) -> tuple[Tensor, Tensor]:
    """Losses [R] of rows, and their derivatives by the logits [R, D]. Rows of zeros in ``p`` mean nothing."""
    q = logq.exp()
    loss, slope = -token_weight * torch.linalg.vecdot(p, logq), (q - p).mul_(token_weight)
    if reverse_kl_weight:
        gap = logq - p.clamp_min(TINY).log()
        divergence = torch.linalg.vecdot(q, gap)
        loss = loss + reverse_kl_weight * divergence
        slope.add_(gap.sub_(divergence[:, None]).mul_(q), alpha=reverse_kl_weight)
    return loss, slope
