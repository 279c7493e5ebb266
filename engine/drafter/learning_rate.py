"""How far the steps of a drafter's training go, by its width."""

from engine.config.drafter import BASE_WIDTH


def width_share(hidden_size: int) -> float:
    """What a drafter of this hidden size takes of a learning rate: all up to ``BASE_WIDTH``, and beyond it the less, the wider it is.

    Adam moves each weight about as far as the learning rate, however small its gradient. The moves of a row's weights add up in what the
    row computes: in one twice as wide, steps of the same rate go twice as far (muP, arXiv 2203.03466).
    """
    return min(1.0, BASE_WIDTH / hidden_size)
