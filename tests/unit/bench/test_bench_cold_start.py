"""How much slower than plain a run without a drafter is at worst."""

import pytest
from step_events_for_tests import step

from engine.bench import cold_start
from engine.events import AnyEvent


def run(*seconds: float) -> list[AnyEvent]:
    return [step(index, each, end=sum(seconds[: index + 1])) for index, each in enumerate(seconds)]


def test_every_window_of_neighbours_is_looked_at() -> None:
    assert cold_start.window_ratios([2, 2, 2, 6], [4, 2, 2, 1], 2) == pytest.approx([4 / 6, 1, 8 / 3])
    assert cold_start.window_ratios([2, 4], [1, 2], 10) == [2]


def test_steps_take_what_lies_between_their_ends() -> None:
    assert cold_start.step_seconds([2.0, 3.5, 5.0]) == [2.0, 1.5, 1.5]


def test_the_least_window_is_of_the_medians_of_the_seeds_and_each_seed_has_its_own() -> None:
    plain = run(2.0, 2.0, 2.0)
    found = cold_start.course([{"plain": plain, "tlt": tlt} for tlt in (run(4, 2, 1), run(2.5, 1.5, 1), run(2, 2, 2))], 2)
    assert found["least_window"] == round(4 / 4.5, 3)
    assert found["window_begins"] == 0
    assert found["least_windows"] == [0.667, 1.0, 1.0]
    assert found["speedup"] == {"median": 1.0, "least": 0.857, "most": 1.2}
