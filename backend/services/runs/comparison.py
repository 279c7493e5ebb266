"""Runs against a baseline, over the steps that both have, and over those that all have."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend import models
from backend.models import Attempt
from backend.models.baseline import confounders, with_defaults
from backend.services.telemetry.event_rows import ratio
from backend.services.telemetry.metric_means import SeriesSum, series_sums, step_ranges
from backend.services.telemetry.metric_series import envelopes
from longtail.schemas.comparison import ComparedRun, ConfigDifference, Measures, flat
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import Series

SECONDS, ROLLOUT, TRAINED, IDLE = "step_seconds", "phase/rollout", "trained_seconds", "idle_seconds"
REWARD, ACCEPT = "reward_mean", "accept_length"
SPEEDUPS = ("rollout_speedup", "e2e_speedup")
LABELS = frozenset({"name"})
MISSING = object()
NONE = (0, -1)


def compared(session: Session, runs: Sequence[Run], points: int) -> list[ComparedRun]:
    """Each against the first of them; rewards in at most ``points`` points."""
    ids, baseline = [run.id for run in runs], runs[0].id
    steps = step_ranges(session, ids, SECONDS)
    everybody = _common(steps, steps or ids)
    both = {run_id: _common(steps, (run_id, baseline)) for run_id in ids}
    alike: dict[range, set[str]] = defaultdict(set, {everybody: set(ids)})
    for run_id, span in both.items():
        alike[span].add(run_id)
    measures = {span: _measures(session, same, baseline, span) for span, same in alike.items()}
    told = step_ranges(session, ids, REWARD).values()
    first, last = min((begin for begin, _ in told), default=0), max((end for _, end in told), default=0)
    rewards = envelopes(session, ids, [REWARD], first, last, points)
    machine = machines(session, ids)

    def against_baseline(run: Run) -> ComparedRun:
        apart = confounders(each.field for each in config_diff({"baseline": whole_config(runs[0]), "run": whole_config(run)}))
        unlike = apart or "tracked" in (run.kind, runs[0].kind)
        own, shared = (
            measures[span][run.id].model_copy(update=dict.fromkeys(SPEEDUPS) if unlike else {}) for span in (both[run.id], everybody)
        )
        reward = rewards.get((run.id, REWARD), Series())
        return ComparedRun(run=run, reward=reward, confounders=apart, shared=shared, machine=machine.get(run.id), **dict(own))

    return [against_baseline(run) for run in runs]


def whole_config(run: Run) -> Mapping[str, Any]:
    """Also with the settings that came after the run, at their defaults."""
    return run.config if run.kind == "tracked" else with_defaults(run.config)


def machines(session: Session, run_ids: Collection[str]) -> dict[str, str]:
    """What the latest attempt of each run ran on, in words; without those of which nobody told."""
    latest = (Attempt.run_id == models.Run.id) & (Attempt.number == models.Run.attempt)
    found = session.execute(select(Attempt.run_id, Attempt.environment).join(models.Run, latest).where(Attempt.run_id.in_(run_ids)))
    return {run_id: _machine(told) for run_id, told in found if told}


def _machine(told: Mapping[str, Any]) -> str:
    gpus = Counter(gpu["name"] for gpu in told["gpus"])
    parts = [told["cpu"], f"{told['cores']} cores", *(f"{count} {name}" for name, count in gpus.items())]
    return f"{told['host']} ({', '.join(parts)})"


def _common(steps: Mapping[str, tuple[int, int]], run_ids: Iterable[str]) -> range:
    """From the latest beginning to the earliest end."""
    firsts, lasts = zip(*(steps.get(run_id, NONE) for run_id in run_ids), strict=True)
    return range(max(firsts), min(lasts) + 1)


def _measures(session: Session, run_ids: Collection[str], baseline: str, steps: range) -> dict[str, Measures]:
    """By run, over these steps. One that lacks a value does not count for it."""
    if not steps:
        return {run_id: Measures(steps=0) for run_id in run_ids}
    quarter = max(len(steps) // 4, 1)
    whole = series_sums(session, {*run_ids, baseline}, (SECONDS, ROLLOUT, TRAINED, IDLE), steps)
    early, late = (
        series_sums(session, run_ids, (REWARD,), steps[:quarter]),
        series_sums(session, run_ids, (REWARD, ACCEPT), steps[-quarter:]),
    )

    def measured(run_id: str) -> Measures:
        seconds, rollout = _mean(whole, run_id, SECONDS), _mean(whole, run_id, ROLLOUT)
        return Measures(
            steps=len(steps),
            seconds_per_step=seconds,
            rollout_share=ratio(rollout, seconds),
            rollout_speedup=ratio(_mean(whole, baseline, ROLLOUT), rollout),
            e2e_speedup=ratio(_mean(whole, baseline, SECONDS), seconds),
            reward_first=_mean(early, run_id, REWARD),
            reward_last=_mean(late, run_id, REWARD),
            accept_length=_mean(late, run_id, ACCEPT),
            harvest=ratio(_mean(whole, run_id, TRAINED), _mean(whole, run_id, IDLE)),
        )

    return {run_id: measured(run_id) for run_id in run_ids}


def config_diff(configs: Mapping[str, Mapping[str, Any]]) -> list[ConfigDifference]:
    """Dotted fields whose values are not equal in all ``configs`` (by run id). Lists count as one value."""
    leaves = {run_id: dict(flat(config)) for run_id, config in configs.items()}
    fields = {field: None for config in leaves.values() for field in config if field not in LABELS}
    return [
        ConfigDifference(field=field, values={run_id: config.get(field) for run_id, config in leaves.items()})
        for field in fields
        if any(config.get(field, MISSING) != next(iter(leaves.values())).get(field, MISSING) for config in leaves.values())
    ]


def _mean(found: Mapping[tuple[str, str], SeriesSum], run_id: str, key: str) -> float | None:
    return found[run_id, key].mean if (run_id, key) in found else None
