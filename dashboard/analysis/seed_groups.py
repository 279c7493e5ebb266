"""Runs that differ in their seed only, as groups."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from longtail.schemas.comparison import ComparedRun


@dataclass(frozen=True)
class SeedGroup:
    """Runs of one configuration, each with another seed. Two of the same seed are one observation: the earlier one counts."""

    items: tuple[ComparedRun, ...]

    @property
    def seeds(self) -> int:
        return len(self.items)

    def values(self, field: str) -> list[float]:
        """Of a field of ComparedRun, without the runs that lack it."""
        return [value for item in self.items if (value := getattr(item, field)) is not None]


def seed_groups(items: Sequence[ComparedRun]) -> list[SeedGroup]:
    """That of the first item comes first."""
    found: dict[str, dict[int, ComparedRun]] = {}
    for item in items:
        rest = {key: value for key, value in item.run.config.items() if key not in ("name", "seed")}
        found.setdefault(json.dumps(rest, sort_keys=True), {}).setdefault(item.run.seed, item)
    return [SeedGroup(tuple(members.values())) for members in found.values()]


def seed_speedups(baseline: SeedGroup, group: SeedGroup) -> list[float]:
    """How many times as fast a step is as in the baseline's run of the same seed, seed by seed; nothing where the groups do different
    work. ``confounders`` are against one run of the baseline's: the seed is among them where that has another."""
    if any(set(item.confounders) - {"seed"} for item in group.items):
        return []
    own = {item.run.seed: item.seconds_per_step for item in group.items}
    pairs = [(item.seconds_per_step, own.get(item.run.seed)) for item in baseline.items]
    return [seconds / mine for seconds, mine in pairs if seconds and mine]
