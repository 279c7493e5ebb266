"""How long suffix drafts should be, against a search by hand."""

import random

import pytest

from engine.speculation.ngram.draft_length import PADDED, DraftLengthChooser
from engine.speculation.strategy import Context, Strategy
from engine.speculation.tuner.cost_table import CostTable, Grid

FREE = Grid((1,), (1,), (0,), [[[0.0]]])
# A step takes one unit and a tenth for every drafted token of each of four requests; twice that at 1024 tokens.
COSTS = CostTable(Grid((4,), (1, 11), (64, 1024), [[[1.0, 1.0], [5.0, 9.0]]]), FREE)


def rate(width: int, chances: list[list[float]], length: float) -> float:
    """Tokens a unit, worked out by hand."""

    def seconds(tokens: float) -> float:
        return COSTS.seconds(Strategy("ngram", 1, 1, tokens), Context(4, length))  # type: ignore[arg-type]

    kept = [each[:width] for each in chances]
    mean = sum(map(len, kept)) / 4
    return (4 + sum(map(sum, kept))) / (PADDED * seconds(max(map(len, kept))) + (1 - PADDED) * seconds(mean))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_best_of_all_widths(seed: int) -> None:
    rng = random.Random(seed)
    chances = []
    for _ in range(4):
        chance = 1.0
        chances.append([chance := chance * rng.uniform(0.4, 1) for _ in range(rng.randrange(8))])
    best = DraftLengthChooser(COSTS.seconds).best(chances, Context(4, 64))
    rates = [rate(width, chances, 64) for width in range(8)]
    assert rates[best] == pytest.approx(max(rates))


def test_sure_tokens_are_verified_and_doubtful_ones_are_not() -> None:
    """A token for each request costs 0.4 of 1 and brings 1 or 0.3 of 1."""
    widths = DraftLengthChooser(COSTS.seconds)
    assert widths.best([[1.0, 1.0, 0.3, 0.3]] * 4, Context(4, 64)) == 2
    assert widths.best([[0.3, 0.3]] * 4, Context(4, 64)) == 0
    assert widths.best([[], [], [], []], Context(4, 64)) == 0
    assert widths.best([[0.7, 0.7]] * 4, Context(4, 1000)) == 0, "attention to long texts costs more"


def test_a_single_draft_must_pay_for_what_it_pads() -> None:
    """One request's token costs 0.1, and half of the 0.3 that tokens of the others would."""
    widths = DraftLengthChooser(COSTS.seconds)
    assert widths.best([[1.0], [], [], []], Context(4, 64)) == 0
    assert widths.best([[1.0], [1.0], [], []], Context(4, 64)) == 1
