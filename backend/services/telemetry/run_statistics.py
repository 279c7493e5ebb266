"""What all steps of a run come to. Sums come from roll-ups and the rest from points, so that a bucket never counts as a step."""

from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Any

from sqlalchemy import ColumnElement, Float, cast, func, select
from sqlalchemy.orm import Session

from backend.models import DrafterSession, Metric, Rollout, Run, WorkerSpan
from backend.services.telemetry.metric_means import SeriesSum, series_sums
from longtail.schemas.run_statistics import RewardTrend, RunStatistics, SavedSeconds

REWARD, SECONDS, ACCEPT, IDLE, TRAINED = "reward_mean", "step_seconds", "accept_length", "idle_seconds", "trained_seconds"
DECODING = "decode_seconds"
PLAIN, NGRAM, UNTRAINED = (f"{DECODING}/{otherwise}" for otherwise in ("plain", "ngram", "untrained"))
TRAINING_COST = "training_cost_seconds"
SUMS = (REWARD, SECONDS, IDLE, TRAINED, DECODING, PLAIN, NGRAM, UNTRAINED, TRAINING_COST)
RECENT_STEPS, RECENT_ACCEPTS, TAIL_STEPS = 10, 5, 500
RECENT_MEANS = {"step_seconds_recent": SECONDS, "accept_recent": ACCEPT}
RECENT_FIGURES = ("reward_recent", "reward_spread", *RECENT_MEANS)
LEAST_STEPS, MOST_TREND_STEPS = 4, 10_000
NOTHING = SeriesSum(0.0, 0)


def run_statistics(session: Session, run: Run) -> RunStatistics:
    whole = series_sums(session, [run.id], SUMS, range(max(run.step, 1)))
    sums = {key: whole.get((run.id, key), NOTHING) for key in SUMS}
    reward, spread = recent_reward(session, run.id)
    accepted = latest_values(session, run.id, ACCEPT, RECENT_ACCEPTS)
    tail, tail_steps = _tail(session, run.id)
    published = select(func.count()).where(DrafterSession.run_id == run.id, DrafterSession.published)
    return RunStatistics(
        steps=sums[SECONDS].numbers,
        step_seconds=sums[SECONDS].mean,
        rewarded_steps=sums[REWARD].numbers,
        reward=reward,
        reward_spread=spread,
        reward_trend=_trend(session, run.id, sums[REWARD].numbers),
        accept_length=fmean(accepted) if accepted else None,
        accept_steps=len(accepted),
        tail=tail,
        tail_steps=tail_steps,
        idle_seconds=sums[IDLE].total if sums[IDLE].numbers else None,
        trained_seconds=sums[TRAINED].total if sums[TRAINED].numbers else None,
        published=session.scalar(published) or 0,
        startup_seconds=_startup(session, run),
        saved=_saved(sums),
    )


def recent_figures(session: Session, run_id: str) -> dict[str, float | None]:
    """What a run's summary says of its latest steps together; nothing of what none of them has a number of."""
    reward, spread = recent_reward(session, run_id)
    told = {key: latest_values(session, run_id, series, RECENT_STEPS) for key, series in RECENT_MEANS.items()}
    rewards = {} if reward is None else {"reward_recent": reward, "reward_spread": spread}
    return rewards | {key: fmean(values) for key, values in told.items() if values}


def recent_reward(session: Session, run_id: str) -> tuple[float | None, float | None]:
    """Mean and standard deviation of the latest steps' mean rewards; None where there are too few."""
    values = latest_values(session, run_id, REWARD, RECENT_STEPS)
    return fmean(values) if values else None, stdev(values) if len(values) > 1 else None


def latest_values(session: Session, run_id: str, key: str, most: int) -> list[float]:
    """The newest first, of those that are numbers."""
    return list(session.scalars(_values(run_id, key).order_by(Metric.step.desc()).limit(most)))


def _values(run_id: str, key: str) -> Any:
    return select(Metric.value).where(Metric.run_id == run_id, Metric.key == key, Metric.value.is_not(None))


def _saved(sums: Mapping[str, SeriesSum]) -> SavedSeconds | None:
    """None where steps tell only a part of it: sums of different steps do not compare."""
    steps, decoding = sums[DECODING].numbers, sums[DECODING].total
    if any(sums[key].numbers != steps for key in (PLAIN, NGRAM, UNTRAINED)):
        return None
    drafts, learned, trained = (sums[key].total - decoding for key in (PLAIN, NGRAM, UNTRAINED))
    training = trained - sums[TRAINING_COST].total
    return SavedSeconds(steps=steps, decoding=decoding, drafts=drafts, learned_drafter=learned, training=training) if steps else None


def _trend(session: Session, run_id: str, steps: int) -> RewardTrend | None:
    if steps < LEAST_STEPS:
        return None
    third = min(max(2, steps // 3), MOST_TREND_STEPS)
    (first, early), (last, late) = (_moments(session, run_id, third, order) for order in (Metric.step.asc(), Metric.step.desc()))
    return RewardTrend(steps=third, first=first, last=last, error=((early + late) / third) ** 0.5)


def _moments(session: Session, run_id: str, steps: int, order: ColumnElement[Any]) -> tuple[float, float]:
    """Mean and sample variance of the reward over so many steps from one end."""
    part = _values(run_id, REWARD).order_by(order).limit(steps).subquery()
    mean, square = session.execute(select(func.avg(part.c.value), func.avg(part.c.value * part.c.value))).one()
    return mean, max(square - mean * mean, 0.0) * steps / (steps - 1)


def _tail(session: Session, run_id: str) -> tuple[float | None, int]:
    longest, median = cast(Rollout.max, Float), func.max(Rollout.p50, 1) if _is_sqlite(session) else func.greatest(Rollout.p50, 1)
    ratios = select((longest / median).label("ratio")).where(Rollout.run_id == run_id).order_by(Rollout.step.desc()).limit(TAIL_STEPS)
    part = ratios.subquery()
    mean, count = session.execute(select(func.avg(part.c.ratio), func.count())).one()
    return mean, count


def _startup(session: Session, run: Run) -> float | None:
    """In the first attempt: a run that was resumed began its step 0 in that. A retry has this step from the run that it goes on from, and
    a time before its own start."""
    begun = session.scalar(select(func.min(WorkerSpan.start)).where(WorkerSpan.run_id == run.id, WorkerSpan.step == 0))
    return None if begun is None or run.started_at is None or begun < run.started_at else begun - run.started_at


def _is_sqlite(session: Session) -> bool:
    return session.get_bind().dialect.name == "sqlite"
