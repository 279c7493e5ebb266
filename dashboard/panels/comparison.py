"""What the compare page says of an API comparison in numbers and words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
import yaml

from backend.schemas.comparison import ComparedRun, Comparison, flat
from backend.schemas.runs import Run
from dashboard.charts.speedups import end_to_end
from dashboard.formats import count, duration, number, percent, plain, short, times
from dashboard.panels.tables import Rows

LONGEST_NAME = 60
LEAST_GAIN = 0.0005
"""Of a reward: less is not seen in three digits."""


def labels(runs: Sequence[Run]) -> dict[str, str]:
    """Run id -> name, shortened, with the beginning of the id where runs share a name."""
    names = {run.id: short(run.name, LONGEST_NAME) for run in runs}
    counts = Counter(names.values())
    return {run_id: name if counts[name] == 1 else f"{name} ({run_id[:6]})" for run_id, name in names.items()}


def headline(baseline: ComparedRun, other: ComparedRun, name: str) -> None:
    """End to end, what it is made of, and what it did to the reward."""
    share, speedup = baseline.rollout_share, other.rollout_speedup
    predicted = end_to_end(share, speedup) if share is not None and speedup else None
    gain = other.reward_last - baseline.reward_last if other.reward_last is not None and baseline.reward_last is not None else None
    is_same = gain is not None and abs(gain) < LEAST_GAIN
    cards = st.columns(4)
    cards[0].metric(
        "End to end",
        times(other.e2e_speedup),
        border=True,
        height="stretch",
        help=f"{plain(name)} against the baseline, over {count(other.steps, 'step')}",
    )
    cards[1].metric("Rollout", times(speedup), border=True, height="stretch", help="Speed-up r of the rollout phase")
    cards[2].metric(
        "Rollout share of the baseline",
        percent(share),
        border=True,
        height="stretch",
        help=f"Share s of a step; 1 / ((1 - s) + s / r) = {times(predicted)}",
    )
    cards[3].metric(
        "Reward, last quarter",
        number(other.reward_last, 3),
        None if gain is None else "as the baseline" if is_same else f"{gain:+.3f} against the baseline",
        delta_color="off",
        delta_arrow="off" if is_same else "auto",
        border=True,
        height="stretch",
    )


def rows(comparison: Comparison, names: Mapping[str, str]) -> Rows:
    """A row for each run, the baseline first."""
    return [
        {
            "Run": names[item.run.id] + (" (baseline)" if item.run.id == comparison.baseline else ""),
            "State": item.run.doing,
            "Seed": str(item.run.seed),
            "Steps compared": str(item.steps),
            "Time a step": duration(item.seconds_per_step),
            "Rollout share s": percent(item.rollout_share),
            "Rollout speed-up r": times(item.rollout_speedup),
            "End-to-end speed-up": times(item.e2e_speedup),
            "Reward, first quarter": number(item.reward_first, 3),
            "Reward, last quarter": number(item.reward_last, 3),
            "Accept length, last quarter": number(item.accept_length),
            "Idle time that trained the drafter": percent(item.harvest),
        }
        for item in comparison.items
    ]


def configurations(comparison: Comparison, names: Mapping[str, str], only_differences: bool) -> Rows:
    """A row for each field: those that are not the same in all runs, or all, where these are marked by a star."""
    different = {row.field: row.values for row in comparison.config_diff}
    if only_differences:
        return [_row(field, values, names) for field, values in different.items()]
    leaves = {item.run.id: dict(flat(item.run.config)) for item in comparison.items}
    fields = dict.fromkeys(field for config in leaves.values() for field in config)
    values = {field: {run_id: config.get(field) for run_id, config in leaves.items()} for field in fields}
    return [_row(f"★ {field}" if field in different else field, values[field], names) for field in fields]


def _row(field: str, values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    return {"Field": field} | {name: _value(values.get(run_id)) for run_id, name in names.items()}


def _value(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True).removesuffix("...\n").strip()
