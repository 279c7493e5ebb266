"""What the compare page shows of an API comparison."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
import yaml

from backend.schemas.comparison import ComparedRun, Comparison, ConfigDifference
from backend.schemas.runs import Run
from dashboard.formats import duration, number, percent, plain, times


def labels(runs: Sequence[Run]) -> dict[str, str]:
    """Run id -> name, with the beginning of the id where runs share a name."""
    counts = Counter(run.name for run in runs)
    return {run.id: run.name if counts[run.name] == 1 else f"{run.name} ({run.id[:6]})" for run in runs}


def headline(baseline: ComparedRun, other: ComparedRun, name: str) -> None:
    """End to end, what it is made of, and what it did to the reward."""
    share, speedup = baseline.rollout_share, other.rollout_speedup
    predicted = 1 / ((1 - share) + share / speedup) if share is not None and speedup else None
    gain = other.reward_last - baseline.reward_last if other.reward_last is not None and baseline.reward_last is not None else None
    cards = st.columns(4)
    cards[0].metric(
        "End to end",
        times(other.e2e_speedup),
        border=True,
        height="stretch",
        help=f"{plain(name)} against the baseline, over {other.steps} steps",
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
        None if gain is None else f"{gain:+.3f} against the baseline",
        delta_color="off",
        border=True,
        height="stretch",
    )


def table(comparison: Comparison, names: Mapping[str, str]) -> None:
    """A row for each figure, a column for each run."""
    items = comparison.items
    rows: dict[str, list[str]] = {
        "Time a step": [duration(item.seconds_per_step) for item in items],
        "Rollout share (s)": [percent(item.rollout_share) for item in items],
        "Rollout speed-up (r)": [times(item.rollout_speedup) for item in items],
        "End-to-end speed-up": [times(item.e2e_speedup) for item in items],
        "Reward, first quarter": [number(item.reward_first, 3) for item in items],
        "Reward, last quarter": [number(item.reward_last, 3) for item in items],
        "Accept length, last quarter": [number(item.accept_length) for item in items],
        "Idle time that trained the drafter": [percent(item.harvest) for item in items],
        "Steps compared": [str(item.steps) for item in items],
    }
    heads = [plain(names[item.run.id]) + (" (baseline)" if item.run.id == comparison.baseline else "") for item in items]
    st.table(
        {"": list(rows)} | {head: [cells[i] for cells in rows.values()] for i, head in enumerate(heads)},
        border="horizontal",
        hide_index=True,
    )


def differences(found: Sequence[ConfigDifference], names: Mapping[str, str]) -> None:
    """The fields that are not the same in all runs, and only those."""
    if not found:
        st.caption("The runs have the same configuration.")
        return
    columns = {plain(name): [_value(row.values.get(run_id)) for row in found] for run_id, name in names.items()}
    st.table({"Field": [f"`{row.field}`" for row in found]} | columns, border="horizontal", hide_index=True)


def _value(value: Any) -> str:
    return plain(yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n"))
