"""What the memory of earlier epochs is worth, and by which problems."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from step_events_for_tests import step

from engine.bench import repeats
from engine.events import AnyEvent


def run(rollouts: Sequence[float], accepted: Sequence[float]) -> list[AnyEvent]:
    ends = [sum(rollouts[: index + 1]) + index + 1.0 for index in range(len(rollouts))]
    return [
        step(index, seconds + 1.0, end=ends[index], accept_length=accepted[index], rollout=seconds)
        for index, seconds in enumerate(rollouts)
    ]


def test_every_epoch_has_its_own_speed_up() -> None:
    runs = [{"plain": run([4, 4, 4, 4], [1, 1, 1, 1]), "ngram": run([4, 4, 1, 3], [1, 1, 2, 4])}]
    found = repeats.course(runs, "ngram", 2)
    assert found["rollout_by_epoch"] == [1.0, 2.0]
    assert found["accept_by_epoch"] == [1.0, 3.0]
    assert found["speedup"]["median"] == pytest.approx(20 / 16)


def test_every_problem_comes_once_an_epoch_and_a_right_answer_is_rewarded() -> None:
    rows = repeats.problems(8)
    assert len({row["question"] for row in rows}) == 8
    assert repeats.scored({"numbers": [3, 7, 25], "target": 29}, "25+7=32,32-3=29!") == 1.0
    assert repeats.scored({"numbers": [3, 7, 25], "target": 29}, "25+7=32,32-3=28!") == 0.0
    for quick in (True, False):
        prompts, epochs, a_step, _ = repeats.sizes(quick)
        assert prompts % a_step == 0
        assert repeats.scale(quick, "tiny", Path("rows.jsonl")).steps == epochs * prompts / a_step
