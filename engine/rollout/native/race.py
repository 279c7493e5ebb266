"""The exponential race: a token of weight w arrives at time E / w, with E of mean 1, and the first to arrive is drawn. It has exactly the
law of the weights. The Gumbel-max trick is its logarithm."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Race:
    """``weights`` [R, K] are in proportion to probability; ``speeds`` [R, K] are weights over exponential random variables. ``tokens``
    [R, K] run; None: the whole vocabulary. It has one row, or no more elements than one thread sums (see ``row_chunks``)."""

    weights: Tensor
    speeds: Tensor
    tokens: Tensor | None = None

    def winners(self) -> tuple[Tensor, Tensor]:
        """The tokens drawn, and their log-probabilities, [R] each."""
        places = self.speeds.max(-1).indices[:, None]
        logprobs = (self.weights.gather(1, places)[:, 0] / self.weights.sum(-1)).log()
        return self._at(places)[:, 0], logprobs

    def leaders(self, count: int) -> tuple[Tensor, Tensor]:
        """The ``count`` tokens likeliest to win if times were still to change by as much as they have, fastest first, and the log of how
        likely, [R, count] each."""
        speeds, places = self.speeds.topk(count, -1)
        return self._at(places), (speeds / self.speeds.sum(-1, keepdim=True)).log()

    def _at(self, places: Tensor) -> Tensor:
        return places if self.tokens is None else self.tokens.gather(1, places)
