"""Runs of a list that differ in nothing but name and seed, as one row each."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from dashboard.analysis.run_config import apart_from_seed, run_kind, seed
from dashboard.analysis.seed_means import means_by
from dashboard.text.formats import MISSING, count, duration, number, ratio
from longtail.schemas.run_overviews import RunOverview
from longtail.schemas.runs import Run


@dataclass(frozen=True)
class RunGroup:
    """In the order of the list."""

    runs: tuple[Run, ...]

    @property
    def seeds(self) -> Mapping[int | None, int]:
        """How many runs each seed has, the least seed first, and last those of which none is known."""
        found = Counter(seed(run) for run in self.runs)
        return {number: found[number] for number in sorted(found, key=lambda each: (each is None, each))}


def run_groups(runs: Sequence[Run]) -> list[RunGroup]:
    """In the order of their first runs."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(apart_from_seed(run), []).append(run)
    return [RunGroup(tuple(members)) for members in found.values()]


def group_row(group: RunGroup, glances: Mapping[str, RunOverview]) -> dict[str, str]:
    """Means over the seeds, with their standard deviation; of a seed that is repeated the mean of its runs counts. A plain run has no
    speed-up: what is told beside it is its TLT run's."""
    states = Counter(run.doing for run in group.runs)
    rewards = ((run, reward) for run in group.runs if (reward := run.summary.get("reward_recent")) is not None)
    known = [(run, glances[run.id]) for run in group.runs if run.id in glances]
    speedups = ((run, glance.speedup) for run, glance in known if glance.speedup and run_kind(run) == "TLT")
    paces = ((run, glance.step_seconds) for run, glance in known if glance.step_seconds)
    return {
        "Configuration": group.runs[0].name + (f" and {count(len(group.runs) - 1, 'more run')}" if len(group.runs) > 1 else ""),
        "Seeds": ", ".join(_seed(number) if runs == 1 else f"{_seed(number)} ({runs} runs)" for number, runs in group.seeds.items()),
        "States": ", ".join(f"{number} {state}" for state, number in states.items()),
        "Reward": _spread(rewards, lambda value: number(value, 3)),
        "Speed-up": _spread(speedups, ratio),
        "Time a step": _spread(paces, duration),
    }


def _seed(known: int | None) -> str:
    return MISSING if known is None else str(known)


def _spread(found: Iterable[tuple[Run, float]], form: Callable[[float], str]) -> str:
    values = [*means_by((seed(run), value) for run, value in found).values()]
    if not values:
        return ""
    return form(fmean(values)) + (f" ± {form(stdev(values))}" if len(values) > 1 else "")
