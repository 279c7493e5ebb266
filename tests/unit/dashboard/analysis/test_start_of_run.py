from datetime import timedelta
from typing import Any

import pytest
from example_runs import NOW, run

from backend.demo_data import telemetry
from dashboard.analysis.start_of_run import SimilarRun, beginning
from dashboard.views.run.header import pace
from longtail.schemas.runs import StartingUp
from longtail.schemas.telemetry import Series

BEGUN = run("x", telemetry.config()).model_copy(update={"step": 0, "started_at": NOW - timedelta(seconds=10)})
SIMILAR = SimilarRun(run("y", telemetry.config()), step_seconds=2.0, startup_seconds=20.0)


def at(phase: Any, done: int = 0, total: int = 0) -> StartingUp:
    return StartingUp(phase=phase, since=NOW - timedelta(seconds=4), done=done, total=total)


@pytest.mark.parametrize(
    ("starting_up", "told"),
    [
        (at("starting_workers"), "starting workers, for 4.00\xa0s"),
        (at("measuring_costs"), "measuring costs, for 4.00\xa0s"),
        (at("first_rollout", 12, 32), "first rollout, 12 of 32 responses, for 4.00\xa0s"),
        (at("first_rollout", 32, 32), "first update of the policy, for 4.00\xa0s"),
    ],
)
def test_a_start_says_what_is_under_way_and_how_long_it_takes_with_all_steps(starting_up: StartingUp, told: str) -> None:
    """20 s to begin and 30 steps of 2 s, of which 10 s are over."""
    begun = BEGUN.model_copy(update={"starting_up": starting_up})
    assert beginning(begun, SIMILAR, NOW) == f"{told}, about 1\xa0min 10\xa0s left, as countdown TLT took"
    assert beginning(begun, None, NOW) == f"{told}, and no finished run is like it to tell how long it takes"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"starting_up": at("measuring_costs")}, "measuring costs, for 4.00\xa0s, up to about 10\xa0min 0\xa0s to train the drafter"),
        ({"starting_up": at("first_responses")}, "the model writes its first responses, for 4.00\xa0s, up to about 9\xa0min 56\xa0s to"),
        ({"starting_up": at("first_round")}, "first round of training the drafter, for 4.00\xa0s, up to about 10\xa0min 0\xa0s to"),
        ({"state": "starting"}, "the engine is being started"),
    ],
)
@pytest.mark.parametrize("steps", [0, 30])
def test_a_run_that_trains_its_drafter_first_says_so(changes: dict[str, Any], told: str, steps: int) -> None:
    config = telemetry.config(True, algorithm={"steps": steps}, drafter={"path": None, "pretrain_minutes": 10})
    begun = BEGUN.model_copy(update={"config": config, "steps": steps, **changes})
    if steps == 0 or "measuring" not in told:  # one with steps tells how long it takes with these, by a run like it
        assert beginning(begun, None, NOW).startswith(told)


def test_responses_that_were_given_are_read_and_long_ones_are_over_the_time() -> None:
    config = telemetry.config(
        True, algorithm={"steps": 0}, drafter={"path": None, "pretrain_minutes": 0.05, "pretrain_responses": "a.jsonl"}
    )
    begun = BEGUN.model_copy(update={"config": config, "steps": 0, "starting_up": at("first_responses")})
    assert beginning(begun, None, NOW) == "the model reads the first responses, for 4.00\xa0s, longer than was given to train the drafter"


def test_where_the_start_of_the_other_was_not_measured_only_steps_are_foretold() -> None:
    begun = BEGUN.model_copy(update={"starting_up": at("measuring_costs")})
    told = beginning(begun, SIMILAR._replace(startup_seconds=None), NOW)
    assert told == "measuring costs, for 4.00\xa0s, about 1\xa0min 0\xa0s for all steps, as countdown TLT took"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"state": "paused"}, "paused"),
        ({"state": "queued"}, "waiting for a worker"),
        ({"state": "starting"}, "the engine is being started"),
        ({"starting_up": at("starting_workers")}, "starting workers, for 4.00\xa0s, about 40.0\xa0s for 20 more steps"),
        (
            {"starting_up": at("first_rollout", 3, 32)},
            "first rollout of this attempt, 3 of 32 responses, for 4.00\xa0s, about 40.0\xa0s for 20 more steps",
        ),
        ({}, "2.00\xa0s a step · about 40.0\xa0s left"),
    ],
)
def test_a_run_that_has_done_steps_has_a_pace_only_while_it_does_more(changes: dict[str, Any], told: str) -> None:
    """Ten are done when it is paused, or lost its worker, or begins again."""
    seconds = Series(steps=list(range(10)), values=[2.0] * 10)
    assert pace(BEGUN.model_copy(update={"step": 10} | changes), seconds, NOW).startswith(told)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"state": "paused"}, "paused"),
        ({"state": "queued"}, "waiting for a worker"),
        ({"state": "queued", "needs": "gpu"}, "waiting for a worker that offers gpu"),
        ({"state": "queued", "start_after": NOW + timedelta(hours=1)}, "starts after 2030-01-01 01:00 UTC"),
        ({"state": "starting"}, "the engine is being started"),
    ],
)
def test_a_run_that_has_not_begun_says_why(changes: dict[str, Any], told: str) -> None:
    assert beginning(BEGUN.model_copy(update=changes), None, NOW) == told
