"""Speculation pays with few running requests only: on and off by their number, with hysteresis."""


class ElasticSwitch:
    """Off until the first ``update`` with at most ``threshold`` requests; then on until there are more than
    ``threshold * (1 + hysteresis)``; and so on, in both directions."""

    def __init__(self, threshold: int, hysteresis: float) -> None:
        self._threshold = threshold
        self._limit = threshold * (1 + hysteresis)
        self.reset()

    def reset(self) -> None:
        """A rollout begins; how the last one ended tells nothing of it."""
        self._on = False

    def update(self, running: int) -> bool:
        """Whether the next decode step, of ``running`` requests, may speculate."""
        self._on = running <= (self._limit if self._on else self._threshold)
        return self._on
