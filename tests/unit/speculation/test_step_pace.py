"""How much longer steps take beside training."""

import random
from collections.abc import Sequence
from math import exp, inf, log

import pytest
from speculator_cases import CHAIN, COSTS, admitted, make

from engine.rollout.interface import RolloutStatistics
from engine.speculation.step_pace import LEAST_STEPS, Kind, Neighbours, Pace, Paces, StepPaces, added, of_worker, slowdown
from engine.speculation.strategy import OFF, Context

ONE, TWO = Kind("OFF", 1, 0, busy=0), Kind("OFF", 2, 0, busy=0)
WAITING, TRAINING = Neighbours("waiting", 0), Neighbours("training", 0)


def paces(steps: int, slower: float, seed: int = 0, noise: float = 0.1) -> Paces:
    """Of large batches half the steps beside training, of small ones, for which the cost table is wrong by half, most of them."""
    rng, found = random.Random(seed), StepPaces()
    for index in range(steps):
        large = index % 2 == 0
        trains = rng.random() < (0.5 if large else 0.8)
        found.neighbours = TRAINING if trains else WAITING
        seconds = (1.0 if large else 1.5) * (slower if trains else 1.0) * exp(rng.gauss(0.0, noise))
        found.record(OFF, Context(8 if large else 1), seconds, 1.0)
    return found.take()


@pytest.mark.parametrize("slower", [1.0, 1.07, 1.5])
def test_what_the_table_is_wrong_by_is_no_slowdown(slower: float) -> None:
    found = [slowdown(paces(2000, slower, seed)) for seed in range(20)]
    assert all(each is not None and abs(log(each / slower)) < 0.03 for each in found)


def test_a_slow_worker_and_more_who_generate_are_no_slowdown() -> None:
    """Trainers are there most of the time while the slow one generates alone."""
    found: Paces = {}
    for worker, busy, waiting, training, slower in ((0, 1, 500, 50, 1.1), (1, 0, 50, 500, 1.2), (0, 0, 300, 300, 1.0)):
        steps = StepPaces()
        for neighbours, count in ((Neighbours("waiting", busy), waiting), (Neighbours("training", busy), training)):
            steps.neighbours = neighbours
            for _ in range(count):
                steps.record(OFF, Context(1), slower, 1.0)
        found = added(found, of_worker(steps.take(), worker))
    assert slowdown(found) == pytest.approx(1.0)


def test_a_single_hiccup_is_no_slowdown() -> None:
    steps = StepPaces()
    for neighbours in (WAITING, TRAINING):
        steps.neighbours = neighbours
        for _ in range(int(3 * LEAST_STEPS)):
            steps.record(OFF, Context(1), 1.0, 1.0)
    steps.record(OFF, Context(1), 1e6, 1.0)
    found = slowdown(steps.take())
    assert found is not None
    assert found < 1.01


@pytest.mark.parametrize("hiccup", [[], [1e6]])
def test_a_table_that_is_wrong_by_far_hides_no_slowdown(hiccup: Sequence[float]) -> None:
    steps = StepPaces()
    for neighbours, seconds in ((WAITING, [*hiccup, *[4.0] * 300]), (TRAINING, [4.4] * 300)):
        steps.neighbours = neighbours
        for each in seconds:
            steps.record(OFF, Context(1), each, 1.0)
    assert slowdown(steps.take()) == pytest.approx(1.1)


def test_nothing_is_said_of_few_steps_nor_of_steps_that_have_no_counterpart() -> None:
    assert slowdown({}) is None
    assert slowdown(paces(100, 2.0)) is None
    assert slowdown({ONE: {"training": Pace(9e9, 9e9)}, TWO: {"waiting": Pace(9e9, 0.0)}}) is None


@pytest.mark.parametrize(
    ("neighbours", "seconds", "predicted"), [(None, 1.0, 1.0), (WAITING, 0.0, 1.0), (WAITING, 1.0, 0.0), (WAITING, 1.0, inf)]
)
def test_a_step_that_says_nothing_is_not_counted(neighbours: Neighbours | None, seconds: float, predicted: float) -> None:
    steps = StepPaces()
    steps.neighbours = neighbours
    steps.record(OFF, Context(1), seconds, predicted)
    assert steps.take() == {}


def test_earlier_steps_count_less() -> None:
    old: Paces = {ONE: {"waiting": Pace(10, 1.0)}}
    new: Paces = {ONE: {"waiting": Pace(2, 0.0)}, TWO: {"training": Pace(1, 0.0)}}
    assert added(old, new, 0.5) == {ONE: {"waiting": Pace(7, 0.5)}, TWO: {"training": Pace(1, 0.0)}}
    assert added({}, new) == new


def test_workers_paces_are_added_up() -> None:
    one, other = (RolloutStatistics(paces={ONE: {"waiting": Pace(count, 0.0)}}) for count in (1, 2))
    one.add(other)
    assert one.paces == {ONE: {"waiting": Pace(3, 0.0)}}


def test_a_speculator_times_the_steps_that_have_neighbours() -> None:
    speculator = make(CHAIN, costs=COSTS, suffix=False)
    batch = admitted(speculator, 2)
    for neighbours in (None, TRAINING, TRAINING):
        speculator.paces.neighbours = neighbours
        plan = speculator.plan(batch, learned=True)
        speculator.record(plan, [0, 0], [1, 1], 2 * COSTS.seconds(plan.strategy, plan.context))
    ((key, timed),) = speculator.paces.take().items()
    assert (key, timed["training"].steps) == (Kind(str(CHAIN), 2, 0, busy=0), 1.0)
    assert timed["training"].log_ratios == pytest.approx(log(2))
    assert speculator.paces.take() == {}


def test_a_speculator_that_knows_no_costs_times_nothing() -> None:
    speculator = make(CHAIN, suffix=False)
    speculator.paces.neighbours = TRAINING
    speculator.record(speculator.plan(admitted(speculator, 2), learned=True), [0, 0], [1, 1], 1.0)
    assert speculator.paces.take() == {}
