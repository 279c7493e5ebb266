"""The losses of TLT section 4 on whole laws of tokens, a block of rows at a time: at real vocabularies they are most of a training step,
and a block's logits stay in a processor's cache and are gone before the next one's."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad, softmax

ROWS = 128
ELEMENTS = 2**25
"""Of a block on a GPU."""
TINY = torch.finfo(torch.float32).tiny


def law_loss(
    passes: Sequence[Tensor],
    shares: Tensor,
    head: Tensor,
    features: Tensor,
    true_head: Tensor,
    token_weight: float,
    reverse_kl_weight: float,
) -> Tensor:
    """The sum of ``token_weight`` * CE(p, q) + ``reverse_kl_weight`` * KL(q, p) over all positions of K ``passes``, each times its share.

    ``passes`` [N, H] each, of the same positions, with ``shares`` [K, N]; q = softmax of them by ``head`` [D, H], and p = softmax of the
    target's ``features`` [N, H] by ``true_head`` [D, H]. No more than a block of p and of one pass's q is there at a time, and one sum of
    the head's gradient, if that is trained, however many passes there are.
    """
    weights = token_weight, reverse_kl_weight
    loss: Tensor = _LawLoss.apply(shares, head, features, true_head, weights, *passes)  # type: ignore[no-untyped-call]
    return loss


class _LawLoss(torch.autograd.Function):
    """Computes the gradients with the loss, for both need the same q."""

    @staticmethod
    def forward(
        ctx: Any, shares: Tensor, head: Tensor, features: Tensor, true_head: Tensor, weights: tuple[float, float], *passes: Tensor
    ) -> Tensor:
        ctx.types = head.dtype, *(predicted.dtype for predicted in passes)
        device, learns = head.device.type, ctx.needs_input_grad[1]
        half, true = (each.to(torch.bfloat16) if torch.is_autocast_enabled(device) else each for each in (head, true_head))
        gradients = [torch.empty_like(predicted) for predicted in passes]
        of_head = torch.zeros_like(head, dtype=torch.float32) if learns else None
        total = shares.new_zeros((), dtype=torch.float32)
        with torch.autocast(device, enabled=False):
            for block in row_blocks(len(features), head):
                p = softmax((_full(features[block].to(true.dtype), block) @ true.t()).float(), -1)
                for predicted, gradient, share in zip(passes, gradients, shares, strict=True):
                    x, counts = _full(predicted[block].to(half.dtype), block), _full(share[block, None], block)
                    loss, slope = _block(torch.log_softmax((x @ half.t()).float(), -1), p, *weights)
                    total += torch.dot(loss, counts[:, 0])
                    slope = slope.mul_(counts).to(half.dtype)
                    gradient[block] = (slope @ half)[: len(features) - block.start]
                    if of_head is not None:
                        of_head += slope.t() @ x
                    del slope  # before there is the next one
        ctx.save_for_backward(of_head, *gradients)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        saved = zip(ctx.saved_tensors, ctx.types, strict=True)
        of_head, *gradients = (None if each is None else (each * outer[0]).to(kind) for each, kind in saved)
        return None, of_head, None, None, None, *gradients


def row_blocks(count: int, head: Tensor) -> Iterator[slice]:
    """Of ``count`` rows, each as long as ``head`` [D, H] has rows. All blocks have one size, though the last one has not as many rows:
    what oneDNN prepares for each shape takes time and memory."""
    size = max(ROWS, min(count, ELEMENTS // len(head))) if head.is_cuda else ROWS
    for start in range(0, count, size):
        yield slice(start, start + size)


def _full(rows: Tensor, block: slice) -> Tensor:
    """With zeros up to the size of the block."""
    missing = block.stop - block.start - len(rows)
    return pad(rows, (0, 0, 0, missing)) if missing else rows


def _block(logq: Tensor, p: Tensor, token_weight: float, reverse_kl_weight: float) -> tuple[Tensor, Tensor]:
    """Losses [R] of rows, and their derivatives by the logits [R, D]."""
    q = logq.exp()
    loss, slope = -token_weight * torch.linalg.vecdot(p, logq), (q - p).mul_(token_weight)
    if reverse_kl_weight:
        gap = logq - p.clamp_min(TINY).log()
        divergence = torch.linalg.vecdot(q, gap)
        loss = loss + reverse_kl_weight * divergence
        slope.add_(gap.sub_(divergence[:, None]).mul_(q), alpha=reverse_kl_weight)
    return loss, slope
