"""The numbers on the cards of a run's page, worked out step by step from its events alone."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev, variance

import pytest

from engine.events import AnyEvent, DrafterTrained, RolloutFinished, StepFinished, WorkerSpan
from longtail.schemas.run_statistics import RewardTrend, RunStatistics, SavedSeconds


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
        saved=saved([step.metrics for step in steps if "decode_seconds" in step.metrics]),
    )


def saved(told: Sequence[Mapping[str, float]]) -> SavedSeconds | None:
    less = {name: sum(each[f"decode_seconds/{name}"] - each["decode_seconds"] for each in told) for name in ("plain", "ngram", "untrained")}
    decoding = sum(each["decode_seconds"] for each in told)
    cost = sum(each.get("training_cost_seconds", 0.0) for each in told)
    figures = {"drafts": less["plain"], "learned_drafter": less["ngram"], "training": less["untrained"] - cost}
    return SavedSeconds(steps=len(told), decoding=decoding, **figures) if told else None


def trend(rewards: Sequence[float]) -> RewardTrend | None:
    if len(rewards) < 4:
        return None
    third = min(max(2, len(rewards) // 3), 10_000)
    first, last = rewards[:third], rewards[-third:]
    error = ((variance(first) + variance(last)) / third) ** 0.5
    return RewardTrend(steps=third, first=fmean(first), last=fmean(last), error=error)


def same(found: RunStatistics, expected: RunStatistics) -> None:
    """To the last digits: sums in a database are made in another order."""
    pairs = {name: (getattr(found, name), value) for name, value in expected if name not in ("reward_trend", "saved")}
    if expected.reward_trend is not None:
        assert found.reward_trend is not None
        pairs |= {name: (getattr(found.reward_trend, name), value) for name, value in expected.reward_trend}
    assert (found.saved is None) == (expected.saved is None)
    if expected.saved is not None:
        pairs |= {f"saved {name}": (getattr(found.saved, name), value) for name, value in expected.saved}
    for name, (seen, value) in pairs.items():
        assert seen == (value if value is None else pytest.approx(value, rel=1e-6)), name
