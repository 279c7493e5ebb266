"""What luck costs, against requests that are simulated one by one."""

from collections.abc import Iterator

import numpy as np
import pytest
from test_goodput import ARMS, Machine, make

from engine.speculation.remaining_length import RemainingLengthPredictor
from engine.speculation.strategy import OFF, Context
from engine.speculation.tuner.cost_table import CostTable, Grid
from engine.speculation.tuner.goodput import GoodputTuner
from engine.speculation.tuner.straggler_delay import LATE, straggler_delay

RATES = (0.6, 0.5)
SHORT, MANY = 16, 64
EVEN = CostTable(  # drafting two tokens, half of which are accepted, is worth as much as plain decoding
    Grid((1, 8, 64), (1, 2, 4, 6), (0,), [[[0.5], [1.0], [1.6], [2.2]], [[0.6], [1.1], [1.9], [2.6]], [[1.0], [1.6], [3.2], [4.7]]]),
    Grid((1,), (1,), (0,), [[[0.0]]]),
)


def tokens(rng: np.random.Generator, requests: int) -> np.ndarray:
    """Of a step for each request: its own and up to two drafted ones."""
    first = rng.random(requests) < RATES[0]
    return 1 + first + (first & (rng.random(requests) < RATES[1]))


def moments() -> tuple[float, float]:
    draws = tokens(np.random.default_rng(0), 200_000)
    return float(draws.mean()), float(draws.var())


@pytest.mark.parametrize(("batch", "steps"), [(64, 6), (16, 6), (64, 20), (2, 10)])
@pytest.mark.parametrize("spread", [0.0, 5.0, 100.0])
def test_it_is_how_far_the_last_request_is_behind_its_fellows(batch: int, steps: int, spread: float) -> None:
    rng, (mean, variance) = np.random.default_rng(1), moments()
    late = []
    for _ in range(2000):
        left = rng.normal(0, spread, batch)
        brought = sum(tokens(rng, batch) for _ in range(steps))
        late.append((left - brought).max() + steps * mean - left.max())
    predicted = straggler_delay(Context(batch, spread=spread), np.array([0.0, steps]), np.array([variance, variance])) / LATE
    assert predicted[0] == 0
    assert predicted[1] == pytest.approx(np.mean(late), rel=0.15, abs=0.4)


def test_nothing_is_lost_alone_or_without_drafts_or_where_nothing_is_known() -> None:
    steps, variance = np.array([5.0, 5.0]), np.array([0.0, 2.0])
    assert not straggler_delay(Context(1, spread=0.0), steps, variance).any()
    assert straggler_delay(Context(9, spread=0.0), steps, variance)[0] == 0
    assert not straggler_delay(Context(9), steps, variance).any()


def decode(tuner: GoodputTuner, machine: Machine, version: int, lengths: RemainingLengthPredictor) -> float:
    """Seconds of a rollout of MANY responses that all end at SHORT tokens."""
    lengths.new_step()
    done, seconds = np.zeros(MANY), 0.0
    while (running := np.flatnonzero(done < SHORT)).size:
        at = float(done[running].mean())
        context = Context(len(running), at, version, version, horizon=lengths.outlook(at, SHORT), spread=lengths.spread(at, SHORT))
        strategy = tuner.select(context)
        brought = tokens(machine.rng, len(running)) if strategy != OFF else np.ones(len(running), int)
        kept = np.minimum(brought, SHORT - done[running]).astype(int)
        took = EVEN.seconds(strategy, context)
        tuner.record(strategy, context, (kept - 1).tolist(), took * float(np.exp(machine.rng.normal(0, 0.05))))
        done[running] += kept
        seconds += took
    for _ in range(MANY):
        lengths.finished(0, SHORT)
    return seconds


def rollouts(seed: int) -> Iterator[float]:
    tuner, machine, lengths = make(seed, EVEN, ARMS[:1] + ARMS[1:2]), Machine(seed), RemainingLengthPredictor()
    for version in range(30):
        yield decode(tuner, machine, version, lengths)


@pytest.mark.parametrize("seed", range(3))
def test_short_responses_of_one_length_are_decoded_plainly(seed: int) -> None:
    plain = SHORT * EVEN.seconds(OFF, Context(MANY))
    assert sum(rollouts(seed)) < 1.02 * 30 * plain
