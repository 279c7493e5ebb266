"""Runs that differ in their seed only, as groups."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.analysis.comparability import work_is_known
from dashboard.analysis.run_config import apart_from_seed, seed
from dashboard.analysis.seed_means import means_by
from dashboard.text.formats import count
from longtail.schemas.comparison import ComparedRun


@dataclass(frozen=True)
class SeedGroup:
    """Runs of one configuration. Those of the same seed repeat it: together they are one observation, by their mean. So are those whose
    seeds nobody knows, as they may be one."""

    items: tuple[ComparedRun, ...]

    @property
    def seeds(self) -> int:
        """Observations."""
        return len({seed(item.run) for item in self.items})

    @property
    def all_known(self) -> bool:
        return all(seed(item.run) is not None for item in self.items)

    @property
    def repeats(self) -> bool:
        """Whether a seed has several runs."""
        known = [number for item in self.items if (number := seed(item.run)) is not None]
        return len(known) > len({*known})

    def told(self) -> str:
        """``3 seeds``, or ``3 runs of 1 seed`` where they are repeated, or ``3 runs, seeds not known``."""
        if not self.all_known:
            return "seed not known" if len(self.items) == 1 else f"{len(self.items):,} runs, seeds not known"
        seeds = count(self.seeds, "seed")
        return f"{count(len(self.items), 'run')} of {seeds}" if self.repeats else seeds

    def ids_by_seed(self) -> list[list[str]]:
        """Of the runs of each seed."""
        found: dict[int | None, list[str]] = {}
        for item in self.items:
            found.setdefault(seed(item.run), []).append(item.run.id)
        return [*found.values()]

    def by_seed(self, field: str) -> dict[int | None, float]:
        """Of a field of Measures, over the steps that all the compared runs have; without the runs that lack it."""
        known = ((seed(item.run), getattr(item.shared, field)) for item in self.items if item.shared)
        return means_by((number, value) for number, value in known if value is not None)

    def values(self, field: str) -> list[float]:
        return [*self.by_seed(field).values()]


def seed_groups(items: Sequence[ComparedRun]) -> list[SeedGroup]:
    """That of the first item comes first."""
    found: dict[str, list[ComparedRun]] = {}
    for item in items:
        found.setdefault(apart_from_seed(item.run), []).append(item)
    return [SeedGroup(tuple(members)) for members in found.values()]


def seed_speedups(baseline: SeedGroup, group: SeedGroup) -> list[float]:
    """How many times as fast a step is as in the baseline's runs of the same seed, seed by seed, over the steps that all the compared runs
    have; nothing where the groups do different work, or nobody knows which. ``confounders`` are against one run of the baseline's: the
    seed is among them where that has another."""
    if any(set(item.confounders) - {"seed"} for item in group.items) or not work_is_known(*baseline.items, *group.items):
        return []
    plain, own = baseline.by_seed("seconds_per_step"), group.by_seed("seconds_per_step")
    return [seconds / own[number] for number, seconds in plain.items() if own.get(number)]
