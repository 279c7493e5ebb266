"""The table over seeds: runs of one configuration as one row, and whether it differs from the first."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev

from dashboard.analysis.seed_groups import SeedGroup, seed_groups, seed_speedups
from dashboard.analysis.significance import MIN_SEEDS, least_p, verdict
from dashboard.text.formats import MISSING, duration, number, percent, ratio
from longtail.schemas.comparison import ComparedRun

MEASURES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "seconds_per_step": ("Time a step", duration),
    "rollout_share": ("Rollout share", lambda value: percent(value, 1)),
    "reward_last": ("Reward, last quarter", lambda value: number(value, 3)),
    "accept_length": ("Accept length, last quarter", number),
}
"""Title and format by field of Measures."""
REPEATED = "Runs of one seed repeat it and are no further seeds: the mean of each seed counts."
NO_STEP = "There is no step that all of these runs have."


def title(group: SeedGroup, names: Mapping[str, str]) -> str:
    first = names[group.items[0].run.id]
    return first if len(group.items) == 1 else f"{first} and {len(group.items) - 1} more"


def rows(items: Sequence[ComparedRun], names: Mapping[str, str]) -> list[dict[str, str]]:
    """A row for each group: its seeds, and by measure its mean, spread and verdict against the first group."""
    found = seed_groups(items)
    return [
        {
            "Runs": title(group, names),
            "Seeds": str(group.seeds) if group.all_known and not group.repeats else group.told(),
            "Speed-up, seed by seed": _speedup(found[0], group),
        }
        | {heading: _cell(found[0], group, field, form) for field, (heading, form) in MEASURES.items()}
        for group in found
    ]


def remark(items: Sequence[ComparedRun]) -> str:
    """Over which steps the rows are, how to read them, and what they cannot say."""
    steps = items[0].shared.steps if items[0].shared else 0
    none = sum(item.shared is None or item.shared.seconds_per_step is None for item in items)
    but = f", but for {none} that {'has' if none == 1 else 'have'} none" if none else ""
    over = (
        f"Over {'the one step' if steps == 1 else f'the {steps:,} steps'} that all these runs have{but}."
        if steps and none < len(items)
        else NO_STEP
    )
    repeated = f" {REPEATED}" if any(group.repeats for group in seed_groups(items)) else ""
    return f"{over}{repeated} {_seeds_remark(items)}"


def _seeds_remark(items: Sequence[ComparedRun]) -> str:
    found = seed_groups(items)
    if max(group.seeds for group in found) == 1:
        return (
            "No two of these runs are known to differ in their seed only, so nobody can tell a difference from luck. "
            f"Add runs of the same configurations with other seeds: {MIN_SEEDS} of one and {MIN_SEEDS + 1} of the other at least."
        )
    sizes = [(found[0].seeds, group.seeds) for group in found[1:]]
    smallest = [least_p(*pair) for pair in sizes if min(pair) >= MIN_SEEDS]
    limit = f" With so many seeds p is {min(smallest):.2g} at least." if smallest else ""
    return (
        "Mean ± standard deviation over seeds; p of an exact permutation test against the first row, which assumes no distribution, "
        f"not corrected for the number of comparisons.{limit}"
    )


def _speedup(baseline: SeedGroup, group: SeedGroup) -> str:
    """Mean over the seeds that both have, and its range, of runs that do the same work."""
    found = sorted(seed_speedups(baseline, group))
    if not found or group is baseline:
        return MISSING
    spread = f" ({ratio(found[0])} to {ratio(found[-1])}, {len(found)} seeds)" if len(found) > 1 else ""
    return f"{ratio(fmean(found))}{spread}"


def _cell(baseline: SeedGroup, group: SeedGroup, field: str, form: Callable[[float], str]) -> str:
    values = group.values(field)
    if not values:
        return MISSING
    spread = f" ± {form(stdev(values))}" if len(values) > 1 else ""
    said = "" if group is baseline else verdict(baseline.values(field), values)
    return f"{form(fmean(values))}{spread}" + (f" ({said})" if said else "")
