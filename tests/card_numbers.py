"""The numbers on the cards of a run's page, worked out step by step from its events alone."""

from collections.abc import Sequence
from statistics import fmean, stdev, variance

import pytest

from engine.events import AnyEvent, DrafterTrained, RolloutFinished, StepFinished, WorkerSpan
from longtail.schemas.run_statistics import RewardTrend, RunStatistics


def numbers(events: Sequence[AnyEvent], started_at: float) -> RunStatistics:
    steps = [event for event in events if isinstance(event, StepFinished)]
    rollouts = [event for event in events if isinstance(event, RolloutFinished)]
    rewards = [step.metrics["reward_mean"] for step in steps]
    accepted = [step.metrics["accept_length"] for step in steps][-5:]
    tails = [max(each.lengths) / max(sorted(each.lengths)[-(-len(each.lengths) // 2) - 1], 1) for each in rollouts][-500:]
    spans = [event.start for event in events if isinstance(event, WorkerSpan) and event.step == 0]
    return RunStatistics(
        steps=len(steps),
        step_seconds=fmean(step.seconds for step in steps),
        rewarded_steps=len(rewards),
        reward=fmean(rewards[-10:]),
        reward_spread=stdev(rewards[-10:]) if len(rewards) > 1 else None,
        reward_trend=trend(rewards),
        accept_length=fmean(accepted),
        accept_steps=len(accepted),
        tail=fmean(tails),
        tail_steps=len(tails),
        idle_seconds=sum(step.metrics["idle_seconds"] for step in steps),
        trained_seconds=sum(step.metrics["trained_seconds"] for step in steps),
        published=sum(event.published for event in events if isinstance(event, DrafterTrained)),
        startup_seconds=min(spans) - started_at if spans else None,
    )


def trend(rewards: Sequence[float]) -> RewardTrend | None:
    if len(rewards) < 4:
        return None
    third = min(max(2, len(rewards) // 3), 10_000)
    first, last = rewards[:third], rewards[-third:]
    error = ((variance(first) + variance(last)) / third) ** 0.5
    return RewardTrend(steps=third, first=fmean(first), last=fmean(last), error=error)


def same(found: RunStatistics, expected: RunStatistics) -> None:
    """To the last digits: sums in a database are made in another order."""
    pairs = {name: (getattr(found, name), value) for name, value in expected if name != "reward_trend"}
    if expected.reward_trend is not None:
        assert found.reward_trend is not None
        pairs |= {name: (getattr(found.reward_trend, name), value) for name, value in expected.reward_trend}
    for name, (seen, value) in pairs.items():
        assert seen == (value if value is None else pytest.approx(value, rel=1e-6)), name
