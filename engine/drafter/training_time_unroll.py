"""A training-time test (HASS, arXiv 2408.15766; EAGLE-3, arXiv 2503.01840): the drafter runs on its own features, as it does in serving."""

from collections.abc import Iterator

from torch import Tensor

from engine.drafter.model import Drafter
from engine.drafter.packing import MicroBatch
from engine.models.packed_attention import PassHistory, Past


def unrolled(
    drafter: Drafter, embedded: Tensor, batch: MicroBatch, passes: int, through: bool, past: Past | None = None
) -> Iterator[Tensor]:
    """The drafter's features [1, N, H] of h[t+1] in each of ``passes`` passes.

    What pass k computes at t is what serving computes for the k-th token of a draft that began at t - k + 1, given that the tokens
    drafted were the true ones; it means nothing where ``batch.offset`` < k - 1. ``embedded`` [1, N, H] are the next tokens.
    ``through``: gradients flow from a pass to the features of the pass before. ``past``: keys and values of ``batch.past``.
    """
    features = drafter.fuse(batch.features.to(embedded.dtype))
    history: PassHistory | None = [] if passes > 1 else None
    for _ in range(passes):
        predicted: Tensor = drafter(embedded, features, batch.positions, batch.lengths, history, past)
        yield predicted
        features = (predicted if through else predicted.detach()).roll(1, dims=1)
