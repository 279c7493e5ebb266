"""Whether runs differ by more than their seeds."""

from collections.abc import Callable, Mapping, Sequence

from backend.schemas.comparison import ComparedRun
from dashboard.formats import MISSING, duration, number, percent
from dashboard.seeds import LEVEL, MIN_SEEDS, Group, groups, least_p, p_value, sample, too_few

MEASURES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "seconds_per_step": ("Time a step", duration),
    "rollout_share": ("Rollout share", lambda value: percent(value, 1)),
    "reward_last": ("Reward, last quarter", lambda value: number(value, 3)),
    "accept_length": ("Accept length, last quarter", number),
}
"""Title and format by field of ComparedRun."""


def title(group: Group, names: Mapping[str, str]) -> str:
    first = names[group.items[0].run.id]
    return first if group.seeds == 1 else f"{first} and {group.seeds - 1} more"


def verdict(baseline: Sequence[float], values: Sequence[float]) -> str:
    """What can be said about the difference of two groups."""
    if not baseline or not values:
        return ""
    if too_few(len(baseline), len(values)):
        return "too few seeds"
    p = p_value(baseline, values)
    return f"{'differs' if p < LEVEL else 'no clear difference'}, p = {p:.2g}"


def rows(items: Sequence[ComparedRun], names: Mapping[str, str]) -> list[dict[str, str]]:
    """A row for each group: its seeds, and by measure its mean, spread and verdict against the first group."""
    found = groups(items)
    return [{"Runs": title(group, names), "Seeds": str(group.seeds)} | _cells(found[0], group) for group in found]


def remark(items: Sequence[ComparedRun]) -> str:
    """How to read the rows, and what they cannot say."""
    found = groups(items)
    if max(group.seeds for group in found) == 1:
        return (
            "No two of these runs differ in their seed only, so nobody can tell a difference from luck. "
            f"Add runs of the same configurations with other seeds: {MIN_SEEDS} of one and {MIN_SEEDS + 1} of the other at least."
        )
    sizes = [(found[0].seeds, group.seeds) for group in found[1:]]
    smallest = [least_p(*pair) for pair in sizes if min(pair) >= MIN_SEEDS]
    limit = f" With so many seeds p is {min(smallest):.2g} at least." if smallest else ""
    return (
        "Mean ± standard deviation over seeds; p of an exact permutation test against the first row, which assumes no distribution, "
        f"not corrected for the number of comparisons.{limit}"
    )


def _cells(baseline: Group, group: Group) -> dict[str, str]:
    return {heading: _cell(baseline, group, field, form) for field, (heading, form) in MEASURES.items()}


def _cell(baseline: Group, group: Group, field: str, form: Callable[[float], str]) -> str:
    values = group.values(field)
    known = sample(values)
    if known is None:
        return MISSING
    spread = "" if known.deviation is None else f" ± {form(known.deviation)}"
    said = "" if group is baseline else verdict(baseline.values(field), values)
    return f"{form(known.mean)}{spread}" + (f" ({said})" if said else "")
