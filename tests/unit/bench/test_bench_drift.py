"""Where the seconds of one arm fall below those of another, and how that is drawn."""

from collections.abc import Sequence

import pytest
from step_events_for_tests import step

from engine.bench import drift, wall_time_chart
from engine.bench.runs import wall_seconds
from engine.events import AnyEvent


def run(seconds: Sequence[float], accepted: Sequence[float] = (), pause: float = 0.0) -> list[AnyEvent]:
    """A run whose steps take so long, with a pause after each."""
    ends = [1000.0 + sum(seconds[: index + 1]) + pause * index for index in range(len(seconds))]
    lengths = accepted or [1.0] * len(seconds)
    return [step(index, seconds[index], end=ends[index], accept_length=lengths[index], rollout=1.0) for index in range(len(seconds))]


@pytest.mark.parametrize(
    ("curve", "other", "expected"),
    [
        ([2, 3, 4], [1, 2, 5], 2),
        ([1, 3, 4], [2, 2, 5], 2),
        ([1, 2, 3], [2, 3, 4], 0),
        ([1, 2, 5], [2, 3, 4], None),
        ([1, 2, 4], [2, 3, 4], None),
    ],
)
def test_the_crossover_is_where_a_curve_gets_below_another_and_stays_there(
    curve: list[float], other: list[float], expected: int | None
) -> None:
    assert drift.crossover(curve, other) == expected


def test_wall_time_counts_what_lies_between_two_steps() -> None:
    assert wall_seconds(run([2.0, 1.0, 1.0], pause=0.5)) == [2.0, 3.5, 5.0]


def test_the_course_of_a_run_is_the_median_of_its_seeds() -> None:
    static = run([2.0] * 4, [4.0, 3.0, 2.0, 1.0])
    tlt = [run([3.0, 2.5, 1.0, 1.0], [4.0] * 4), run([3.0, 1.0, 1.0, 1.0], [4.0] * 4), run([3.0, 1.5, 1.0, 0.5], [4.0] * 4)]
    found = drift.course([{"plain": run([4.0] * 4), "static": static, "tlt": each} for each in tlt])
    assert found["wall_s"] == {"plain": 16.0, "static": 8.0, "tlt": 6.0}
    assert found["crossover_step"] == 2
    assert found["crossover_steps"] == [3, 2, 2]
    assert found["speedup"]["plain"] == {"median": 2.667, "least": 2.133, "most": 2.667}
    assert (found["accept_first"], found["accept_last"]) == ({"plain": 1.0, "static": 2.5, "tlt": 4.0},) * 2
    assert found["after"]["2"] == {
        "wall_s": {"plain": 8.0, "static": 4.0, "tlt": 4.5},
        "accept": {"plain": 1.0, "static": 3.0, "tlt": 4.0},
        "reward": 0.5,
        "kl": 0.1,
    }


def test_the_picture_has_a_line_for_each_arm_that_ends_at_its_seconds() -> None:
    runs = {"plain": run([4.0] * 8), "static": run([2.0] * 8), "tlt": run([3.0] + [1.0] * 7)}
    drawn = wall_time_chart.draw({"drift": drift.course([runs])})
    lines = [line.split('"')[1].split() for line in drawn.splitlines() if "<polyline" in line]
    assert [len(points) for points in lines] == [9, 9, 9]
    tops = [float(points[-1].split(",")[1]) for points in lines]
    assert tops[0] == wall_time_chart.TOP
    assert tops[0] < tops[1] < tops[2] < wall_time_chart.BOTTOM
    assert all(text in drawn for text in ("plain decoding: 32 s", "Longtail (TLT): 10 s", "ahead from step 2 on"))


def test_words_beside_the_lines_do_not_lie_on_each_other() -> None:
    assert wall_time_chart.spaced({"c": 50.0, "b": 12.0, "a": 10.0}) == {"a": 10.0, "b": 28.0, "c": 50.0}


@pytest.mark.parametrize(("most", "expected"), [(120, [0, 20, 40, 60, 80, 100, 120]), (7, [0, 2, 4, 6]), (0.35, [0, 0.1, 0.2, 0.3])])
def test_an_axis_has_a_few_round_numbers(most: float, expected: list[float]) -> None:
    assert wall_time_chart.ticks(most) == pytest.approx(expected)
