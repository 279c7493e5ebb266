"""The tables of a comparison: its measures by run, and the configurations."""

from collections.abc import Mapping
from typing import Any

import yaml

from dashboard.analysis.comparability import other_work
from dashboard.analysis.run_config import seed
from dashboard.text.formats import MISSING, duration, number, percent, ratio
from dashboard.widgets.table import Rows
from longtail.schemas.comparison import Comparison, flat


def run_rows(comparison: Comparison, names: Mapping[str, str]) -> Rows:
    """A row for each run, the baseline first. What is in "Other work" keeps a run from being measured by the baseline."""
    apart = [other_work(comparison.items[0], item, comparison.config_diff) for item in comparison.items]
    return [
        {
            "Run": names[item.run.id] + (" (baseline)" if item.run.id == comparison.baseline else ""),
            "State": item.run.doing,
            "Seed": MISSING if (known := seed(item.run)) is None else str(known),
            "Steps compared": str(item.steps),
            "Time a step": duration(item.seconds_per_step),
            "Rollout share s": percent(item.rollout_share),
            "Rollout speed-up r": ratio(item.rollout_speedup),
            "End-to-end speed-up": ratio(item.e2e_speedup),
            "Reward, first quarter": number(item.reward_first, 3),
            "Reward, last quarter": number(item.reward_last, 3),
            "Accept length, last quarter": number(item.accept_length),
            "Idle time that trained the drafter": percent(item.harvest),
        }
        | ({"Other work": what or MISSING} if any(apart) else {})
        for item, what in zip(comparison.items, apart, strict=True)
    ]


def config_rows(comparison: Comparison, names: Mapping[str, str], only_differences: bool) -> Rows:
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
