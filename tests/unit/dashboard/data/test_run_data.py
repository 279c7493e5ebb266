import pytest

from dashboard.data.run_data import MOST_STEPS, appended, extended, spacing
from longtail.schemas.telemetry import Lengths, Series


def item(step: int, longest: int) -> Lengths:
    return Lengths(step=step, lengths=[longest], truncated=0, p50=longest, p75=longest, p90=longest, max=longest)


def test_steps_that_came_again_replace_the_old_ones() -> None:
    old = [item(0, 1), item(1, 1), item(2, 1)]
    assert [(i.step, i.max) for i in appended(old, [item(2, 9), item(3, 9)], held=1)] == [(0, 1), (1, 1), (2, 9), (3, 9)]


def test_series_grow_without_gaps_or_duplicates() -> None:
    old = {"reward": Series(steps=[0, 1, 2], values=[0.1, 0.2, 0.3]), "gone": Series(steps=[0], values=[1.0])}
    new = {"reward": Series(steps=[2, 3], values=[0.4, 0.5]), "later": Series(steps=[3], values=[7.0])}
    joined = extended(old, new, held=1)
    assert joined["reward"] == Series(steps=[0, 1, 2, 3], values=[0.1, 0.2, 0.4, 0.5])
    assert joined["gone"] == old["gone"]
    assert joined["later"] == new["later"]


def test_the_first_poll_takes_everything() -> None:
    new = {"reward": Series(steps=[0, 1], values=[0.1, None])}
    assert extended({}, new, held=-2) == new


def test_an_envelope_goes_on_with_single_points() -> None:
    old = {"loss": Series(steps=[0, 4], values=[1.0, 2.0], low=[0.0, 1.0], high=[3.0, 4.0], width=4)}
    joined = extended(old, {"loss": Series(steps=[4, 5], values=[7.0, 8.0])}, held=3)["loss"]
    assert joined == Series(steps=[0, 4, 5], values=[1.0, 7.0, 8.0], low=[0.0, 7.0, 8.0], high=[3.0, 7.0, 8.0], width=4)


@pytest.mark.parametrize("steps", [0, 1, 1000, 1001, 2000, 2001, 48_000])
def test_a_long_run_is_shown_by_some_of_its_steps(steps: int) -> None:
    every = spacing(steps)
    assert len(range(0, steps, every)) <= MOST_STEPS
    assert every == 1 or len(range(0, steps, every // 2)) > MOST_STEPS
