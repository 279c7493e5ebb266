"""Advice is a function of figures, and figures one of what a run has reported."""

from dataclasses import replace

import pytest
from example_runs import run

from backend.demo_data import telemetry
from dashboard.analysis.advice import RECENT, RecentSteps, advice, how_often, latest_alarms, recent_steps, what_failed
from longtail.schemas.telemetry import Lengths, LogLine, Series, SpeculationStep

PHASES = {"rollout": 0.8, "reward": 0.0, "inference": 0.05, "update": 0.15, "sync": 0.0, "evaluation": 0.0}
SOUND = RecentSteps(
    phases=PHASES,
    idle=0.2,
    harvest=0.7,
    truncated=0.01,
    reward=0.4,
    accept_length=2.5,
    logprob_gap=1e-6,
    clip_share=0.01,
    entropy=0.8,
    fullest=("node-1", 40.0),
)


def test_nothing_is_advised_of_a_sound_run_nor_of_one_that_has_not_begun() -> None:
    assert advice(SOUND) == []
    assert advice(RecentSteps()) == []


@pytest.mark.parametrize(
    ("changes", "seen", "do"),
    [
        (
            {"phases": PHASES | {"rollout": 0.3, "update": 0.6}},
            "Rollout is 30\xa0% of a step",
            "more than 1.43× as fast: look at update, 60\xa0%",
        ),
        ({"idle": 0.4}, "Workers wait for 40\xa0% of the rollout", "algorithm.prompts_per_step"),
        ({"idle": 0.4, "speculates": False}, "Workers wait for 40\xa0% of the rollout", "speculation.enabled"),
        ({"harvest": 0.08}, "Only 8\xa0% of the waiting trains the drafter", "too short for a session"),
        ({"harvest": 0.0, "untrained": "no worker was idle"}, "Only 0\xa0% of the waiting", "Most often no worker was idle."),
        ({"truncated": 0.25}, "25\xa0% of the responses are cut", "rollout.max_new_tokens"),
        ({"reward": 0.0}, "The mean reward is 0.00", "easier prompts"),
        ({"reward": 0.99}, "The mean reward is 0.99", "harder prompts"),
        ({"accept_length": 1.1}, "A pass of the target yields 1.10 tokens", "Drafter tab"),
        ({"logprob_gap": 0.08}, "Engine and trainer differ by 0.08", "algorithm.rollout_correction"),
        ({"clip_share": 0.31}, "The update of 31\xa0% of the tokens is clipped", "algorithm.learning_rate"),
        ({"entropy": 0.1}, "Entropy has fallen to 10\xa0%", "algorithm.kl_coefficient"),
        ({"fullest": ("node-1", 95.0)}, "The memory of node-1 is 95\xa0% full", "rollout.max_batch"),
    ],
)
def test_what_stands_out_is_named_with_what_to_do(changes: dict[str, object], seen: str, do: str) -> None:
    (one,) = advice(replace(SOUND, **changes))  # type: ignore[arg-type]
    assert one.seen.startswith(seen)
    assert do in one.do


@pytest.mark.parametrize(
    "changes",
    [
        {"harvest": 0.0, "untrained": "acceptance is flat, and so were 3 sessions"},
        {"harvest": 0.0, "idle": 0.05},
        {"harvest": 0.0, "accept_length": 1.0, "speculates": False},
    ],
)
def test_what_is_as_it_should_be_needs_no_advice(changes: dict[str, object]) -> None:
    assert advice(replace(SOUND, **changes)) == []  # type: ignore[arg-type]


def series(*values: float | None) -> Series:
    return Series(steps=list(range(len(values))), values=list(values))


def test_figures_are_of_the_latest_steps() -> None:
    old, now = [9.0] * 5, [1.0] * RECENT
    metrics = {
        "step_seconds": series(*old, *(4.0 for _ in now)),
        "phase/rollout": series(*old, *(2.0 for _ in now)),
        "phase/update": series(*old, *now),
        "idle_seconds": series(*old, *now),
        "trained_seconds": series(*old, *(0.25 for _ in now)),
        "entropy": series(2.0, *now),
        "reward_mean": series(*old, None, *now),
        "system/node-1/memory_percent": series(*now, 97.0),
        "system/node-2/memory_percent": series(*now),
    }
    lengths = [Lengths(step=step, lengths=[1, 2], truncated=1, p50=1, p75=2, p90=2, max=2) for step in range(3)]
    reasons = ["flat", "idle", "idle", None]
    steps = [
        SpeculationStep(step=step, arms=[], drafted_by_position=[], accepted_by_position=[], untrained=reason)
        for step, reason in enumerate(reasons)
    ]
    found = recent_steps(True, 2, metrics, lengths, steps, first_entropy=2.0)
    assert found.phases is not None
    assert (found.phases["rollout"], found.phases["update"], found.phases["sync"]) == (0.5, 0.25, 0.0)
    assert (found.idle, found.harvest, found.untrained) == (0.25, 0.25, "idle")
    assert (found.truncated, found.reward, found.entropy, found.clip_share) == (0.5, 1.0, 0.5, None)
    assert found.fullest == ("node-1", 97.0)


def test_a_phase_that_few_steps_have_is_a_share_of_all_of_them() -> None:
    """One step in ten evaluates, for 30 s; an evaluation before these steps does not count."""
    metrics = {
        "step_seconds": series(*[7.0] * 19, 37.0),
        "phase/rollout": series(*[2.0] * 20),
        "phase/evaluation": Series(steps=[9, 19], values=[30.0, 30.0]),
    }
    seen = recent_steps(True, 2, metrics, [], [])
    assert seen.phases is not None
    assert (seen.phases["rollout"], seen.phases["evaluation"]) == (0.2, 0.3)
    assert "look at evaluation, 30\xa0% of it, first" in advice(seen)[0].do


def test_nothing_is_known_of_a_run_that_has_told_nothing() -> None:
    assert recent_steps(True, 2, {}, [], []) == RecentSteps()


def test_alarms_are_counted_by_code_the_newest_first() -> None:
    lines = [
        LogLine(id=number, time=0.0, level="alarm", step=number, code=code, message=f"{code} {number}")
        for number, code in enumerate(["truncated", "collapsed", "truncated"], 1)
    ]
    assert [(line.message, count) for line, count in latest_alarms(lines)] == [("truncated 3", 2), ("collapsed 2", 1)]


@pytest.mark.parametrize(
    ("step", "count", "more", "told"),
    [
        (7, 1, False, "once at step 7"),
        (7, 3, False, "3 times, last at step 7"),
        (None, 1, False, "once"),
        (None, 1200, True, "at least 1,200 times"),
        (7, 1, True, "at least once, last at step 7"),
    ],
)
def test_how_often_an_alarm_was_raised_is_told_with_or_without_a_step(step: int | None, count: int, more: bool, told: str) -> None:
    """A line of the event file that cannot be read, for one, has none."""
    line = LogLine(id=1, time=0.0, level="alarm", step=step, code="bad_event", message="line 3 is not JSON")
    assert how_often(line, count, more) == told


def test_a_failed_run_says_what_failed() -> None:
    failed = run("x", telemetry.config()).model_copy(
        update={"state": "failed", "error_code": "data", "error": "line 7 is not JSON\nmend it"}
    )
    assert what_failed(failed) == "The run failed at step 5 of 30 (data): line 7 is not JSON"
    for nothing in (None, "", " \n"):
        told = what_failed(failed.model_copy(update={"error": nothing, "error_code": None}))
        assert told.endswith("(error): no reason was recorded")
