"""Rollouts that drafts hardly help: short responses of one length, simulated one by one. Each waits for its least lucky request."""

from collections.abc import Iterator

import numpy as np
import pytest
from simulated_machine import ARMS, Machine
from test_goodput import make

from engine.speculation.remaining_length import RemainingLengthPredictor
from engine.speculation.strategy import OFF, Context
from engine.speculation.tuner.cost_table import CostTable, Grid
from engine.speculation.tuner.goodput import GoodputTuner

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


def decode(tuner: GoodputTuner, machine: Machine, version: int, lengths: RemainingLengthPredictor) -> float:
    """Seconds of a rollout of MANY responses that all end at SHORT tokens."""
    lengths.new_step()
    done, seconds = np.zeros(MANY), 0.0
    while (running := np.flatnonzero(done < SHORT)).size:
        at = float(done[running].mean())
        context = Context(len(running), at, version, version, horizon=lengths.outlook(at, SHORT))
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
