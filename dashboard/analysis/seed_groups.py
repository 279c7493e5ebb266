"""Runs that differ in their seed only, as groups."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.analysis.comparability import work_is_known
from dashboard.analysis.run_config import apart_from_seed, seed
from longtail.schemas.comparison import ComparedRun


@dataclass(frozen=True)
class SeedGroup:
    """Runs of one configuration, each with another seed. Two of the same seed are one observation: the earlier one counts."""

    items: tuple[ComparedRun, ...]

    @property
    def seeds(self) -> int:
        return len(self.items)

    def by_seed(self, field: str) -> dict[int, float]:
        """Of a field of Measures, over the steps that all the compared runs have; without the runs that lack it."""
        return {seed(item.run): value for item in self.items if item.shared and (value := getattr(item.shared, field)) is not None}

    def values(self, field: str) -> list[float]:
        return [*self.by_seed(field).values()]


def seed_groups(items: Sequence[ComparedRun]) -> list[SeedGroup]:
    """That of the first item comes first."""
    found: dict[str, dict[int, ComparedRun]] = {}
    for item in items:
        found.setdefault(apart_from_seed(item.run), {}).setdefault(seed(item.run), item)
    return [SeedGroup(tuple(members.values())) for members in found.values()]


def seed_speedups(baseline: SeedGroup, group: SeedGroup) -> list[float]:
    """How many times as fast a step is as in the baseline's run of the same seed, seed by seed, over the steps that all the compared runs
    have; nothing where the groups do different work, or nobody knows which. ``confounders`` are against one run of the baseline's: the
    seed is among them where that has another."""
    if any(set(item.confounders) - {"seed"} for item in group.items) or not work_is_known(*baseline.items, *group.items):
        return []
    plain, own = baseline.by_seed("seconds_per_step"), group.by_seed("seconds_per_step")
    return [seconds / own[number] for number, seconds in plain.items() if own.get(number)]
