"""The numbers on the cards of a run's page, of a long run above all: each is worked out anew from the run's events."""

import random
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import pytest
from card_numbers import numbers, same
from engine_events import begin, started, write

from backend.database import Database
from backend.models import Run
from backend.services.telemetry.run_statistics import run_statistics
from dashboard.analysis.run_questions import is_it_faster, is_it_training, why
from engine import events
from engine.events import AnyEvent
from longtail.schemas.run_statistics import RunStatistics
from longtail.schemas.runs import Run as RunReply

LONG = 2_100
"""Steps: of so many, series come as buckets."""


def told(steps: int, seed: int = 1) -> Iterator[AnyEvent]:
    """Rewards that rise, lengths with a tail, and a drafter that is trained in most steps."""
    luck = random.Random(seed)
    yield started()
    yield events.WorkerSpan(step=0, worker=0, state="BUSY", start=2e9, end=2e9 + 1)
    for step in range(steps):
        yield events.RolloutFinished(step=step, lengths=[luck.randint(1, 40 + step % 400) for _ in range(6)], truncated=0)
        if luck.random() < 0.7:
            session = {"microsteps": 3, "tokens": 9, "loss": 1.0, "held_out_before": 0.4, "held_out_after": 0.5}
            yield events.DrafterTrained(step=step, drafter_version=step, published=luck.random() < 0.5, reason="better", **session)
        metrics = {
            "reward_mean": luck.gauss(0.3 + 0.2 * step / steps, 0.1),
            "accept_length": luck.uniform(1, 3),
            "idle_seconds": luck.random(),
        }
        metrics["trained_seconds"] = metrics["idle_seconds"] * luck.random()
        if step % 5:  # in the others nobody drafted
            metrics |= {f"decode_seconds{otherwise}": luck.uniform(1, 3) for otherwise in ("", "/plain", "/ngram", "/untrained")}
        yield events.StepFinished(step=step, seconds=luck.uniform(1, 3), phases={"rollout": 0.5}, metrics=metrics)


def found(database: Database, run_id: str) -> tuple[RunStatistics, RunReply]:
    with database.read() as session:
        run = session.get_one(Run, run_id)
        return run_statistics(session, run), RunReply.model_validate(run)


@pytest.mark.parametrize("steps", [1, 3, 4, 70, LONG])
def test_every_number_is_that_of_the_events(database: Database, run_id: str, tmp_path: Path, steps: int) -> None:
    path = tmp_path / "events.jsonl"
    write(path, *told(steps))
    begin(database, run_id, path).drain()
    statistics, run = found(database, run_id)
    assert run.started_at is not None
    expected = numbers(list(told(steps)), run.started_at.timestamp())
    same(statistics, expected)
    assert (statistics.saved is None) == (steps == 1)
    assert (statistics.reward_trend is None) == (steps < 4)
    assert run.summary["reward_recent"] == pytest.approx(expected.reward, rel=1e-9)
    latest = [event for event in told(steps) if isinstance(event, events.StepFinished)][-10:]
    assert run.summary["step_seconds_recent"] == pytest.approx(fmean(step.seconds for step in latest), rel=1e-9)
    assert run.summary["accept_recent"] == pytest.approx(fmean(step.metrics["accept_length"] for step in latest), rel=1e-9)
    assert run.summary["reward_spread"] == (pytest.approx(expected.reward_spread, rel=1e-6) if steps > 1 else None)


def test_the_cards_of_a_long_run_speak_of_steps_not_of_buckets(database: Database, run_id: str, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write(path, *told(LONG))
    begin(database, run_id, path).drain()
    statistics, run = found(database, run_id)
    assert "700 of 2,100 steps" in is_it_training(statistics, LONG).detail
    assert "mean of 2,100 steps" in is_it_faster(run, statistics, None, None).detail
    assert f"({statistics.published} new versions)" in why(run, statistics).detail
    assert statistics.published > 500


def test_the_trend_of_a_very_long_run_is_that_of_its_ends(
    database: Database, run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of a million steps is more than a page can wait for."""
    monkeypatch.setattr("backend.services.telemetry.run_statistics.MOST_TREND_STEPS", 5)
    path = tmp_path / "events.jsonl"
    write(path, *told(40))
    begin(database, run_id, path).drain()
    rewards = [event.metrics["reward_mean"] for event in told(40) if isinstance(event, events.StepFinished)]
    trend = found(database, run_id)[0].reward_trend
    assert trend is not None
    assert trend.steps == 5
    assert [trend.first, trend.last] == pytest.approx([fmean(rewards[:5]), fmean(rewards[-5:])])


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_seconds_that_only_some_steps_tell_are_not_compared(database: Database, run_id: str, tmp_path: Path, value: float | None) -> None:
    """Such as those of a tracked run, which may call its metrics as it likes."""
    told = dict.fromkeys(("decode_seconds", *(f"decode_seconds/{what}" for what in ("plain", "ngram", "untrained"))), 1.0)
    odd = {key: seconds for key, seconds in told.items() if key != "decode_seconds/plain"}
    odd |= {} if value is None else {"decode_seconds/plain": value}
    steps = [events.StepFinished(step=step, seconds=1.0, phases={}, metrics=metrics) for step, metrics in enumerate((told, odd))]
    path = tmp_path / "events.jsonl"
    write(path, started(), *steps)
    begin(database, run_id, path).drain()
    statistics, _ = found(database, run_id)
    assert (statistics.steps, statistics.saved) == (2, None)


def test_a_step_that_began_before_the_run_says_nothing_of_its_start(database: Database, run_id: str, tmp_path: Path) -> None:
    """A retry reads the events of the run that it goes on from, too."""
    path = tmp_path / "events.jsonl"
    write(path, started(), events.WorkerSpan(step=0, worker=0, state="BUSY", start=10.0, end=11.0))
    begin(database, run_id, path).drain()
    statistics, run = found(database, run_id)
    assert run.started_at is not None
    assert run.started_at.timestamp() > 11
    assert statistics.startup_seconds is None


def test_a_run_that_has_told_nothing_has_no_numbers(database: Database, run_id: str) -> None:
    statistics, _ = found(database, run_id)
    assert (statistics.steps, statistics.rewarded_steps, statistics.published, statistics.tail_steps) == (0, 0, 0, 0)
    assert {statistics.step_seconds, statistics.reward, statistics.tail, statistics.idle_seconds, statistics.startup_seconds} == {None}
