"""What a page asks of a run's metrics: what is new, however long ago a key was told last."""

from collections.abc import Sequence
from typing import Any

import pytest
from example_runs import run

from dashboard.data.run_data import LATE_STEPS, LENGTH_STEPS, MOST_RESPONSES, DataQuery, RunData, last_before, length_steps, refreshed
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import Metrics, Series

ID = "0123456789abcdef"


class Api:
    """Of a run whose "old" was told until step 300, "late" until five steps before the last, and "new" until the last."""

    def __init__(self) -> None:
        self.steps = 0
        self.asked: list[int] = []

    def metrics(self, _: str, keys: Sequence[str] = (), since_step: int = -1, prefix: str = "") -> Metrics:
        self.asked.append(since_step)
        until = {"old": 301, "late": max(0, self.steps - 5), "new": self.steps}
        wanted = [key for key in until if (key in keys if keys else key.startswith(prefix))]
        steps = {key: list(range(since_step + 1, until[key])) for key in wanted}
        return Metrics(series={key: Series(steps=found, values=[float(step) for step in found]) for key, found in steps.items() if found})


def at(steps: int) -> Run:
    return run(ID, {"name": "long"}).model_copy(update={"step": steps})


@pytest.mark.parametrize("keys", [("old", "late", "new"), ("*",)])
def test_a_key_that_ended_long_ago_is_not_asked_for_from_there(keys: tuple[str, ...]) -> None:
    api: Any = Api()
    data = RunData(at(700))
    for steps in (700, 720, 725):
        api.steps = steps
        data = refreshed(data, api, DataQuery(metric_keys=keys), at(steps))
    assert api.asked == [-1, 699 - LATE_STEPS, 719 - LATE_STEPS]
    assert {key: (series.steps, series.values) for key, series in data.metrics.items()} == {
        key: ([*range(until)], [*map(float, range(until))]) for key, until in {"old": 301, "late": 720, "new": 725}.items()
    }


def test_a_bucket_of_an_envelope_is_asked_for_as_a_whole() -> None:
    envelope = Series(steps=[0, 8, 16, 24], values=[0.0] * 4, low=[0.0] * 4, high=[0.0] * 4, width=8)
    held = RunData(at(31), metrics={"loss": envelope, "old": Series(steps=[0], values=[1.0], width=4)}, until={"loss": 31 + LATE_STEPS})
    assert held.held_of("loss") == 23
    at_its_start = RunData(at(25), metrics={"loss": envelope}, until={"loss": 25 + LATE_STEPS})
    assert at_its_start.held_of("loss") == 23
    assert RunData(at(32), metrics=held.metrics, until={"old": 20 + LATE_STEPS}).held_of("old") == 19


def test_the_latest_steps_are_as_many_as_they_are_called() -> None:
    assert last_before(at(700), 500) == 199, "steps 200 to 699"
    assert last_before(at(20), 500) == -1


def test_of_very_many_responses_fewer_steps_are_held() -> None:
    huge = run(ID, {"name": "huge", "algorithm": {"prompts_per_step": 512, "group_size": 16}})
    assert length_steps(huge) == MOST_RESPONSES // 8192
    refilled = run(ID, {"name": "dapo", "algorithm": {"prompts_per_step": 512, "group_size": 16, "refills": 3}})
    assert length_steps(refilled) == MOST_RESPONSES // 4 // 8192
    assert length_steps(run(ID, {"name": "small", "algorithm": {"prompts_per_step": 8, "group_size": 8}})) == LENGTH_STEPS
    odd = run(ID, {"name": "of a script", "algorithm": {"prompts_per_step": "many"}}).model_copy(update={"kind": "tracked"})
    assert length_steps(odd) == LENGTH_STEPS
