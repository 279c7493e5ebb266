"""The charts of a comparison, for the page and for the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from dashboard.analysis.run_config import length_limit
from dashboard.analysis.seed_groups import SeedGroup, seed_groups
from dashboard.analysis.step_phases import EVALUATION, PHASES, phase_means
from dashboard.charts.amdahl import amdahl
from dashboard.charts.comparison_curves import CurveOptions, TrainingClock, comparison_curves
from dashboard.charts.group_bands import group_bands
from dashboard.charts.phase_times import phases_by_run
from dashboard.charts.response_lengths import distributions, survival
from longtail.schemas.comparison import AlignedMetric, Comparison

SECONDS = "step_seconds"
ALWAYS = (SECONDS, *(f"phase/{name}" for name in PHASES if name != EVALUATION))


@dataclass(frozen=True)
class ComparisonFigures:
    """``names`` by run id, the baseline first; ``lengths`` of each run's latest steps; ``keys`` of the metrics to draw,
    ``by_group`` as means over seeds."""

    comparison: Comparison
    names: Mapping[str, str]
    lengths: Mapping[str, Sequence[int]]
    keys: Sequence[str]
    options: CurveOptions
    by_group: bool = False

    def curves(self) -> dict[str, go.Figure]:
        """By key, of those that some run has values of."""
        found = {metric.key: metric for metric in self.comparison.metrics if len(self._unmeasured(metric.key)) < len(self.names)}
        clocks = {run_id: TrainingClock.of(found[SECONDS], run_id) for run_id in self._timed(found)}
        if self.by_group:
            return {key: group_bands(found[key], self.groups(), self.options) for key in self.keys if key in found}
        return {key: comparison_curves(found[key], self.names, self.options, clocks) for key in self.keys if key in found}

    def groups(self) -> dict[str, list[list[str]]]:
        """By the name of a group, which is of runs that differ in their seed only, the run ids of each seed."""
        return {self._group_name(group): group.ids_by_seed() for group in seed_groups(self.comparison.items)}

    def _group_name(self, group: SeedGroup) -> str:
        first = self.names[group.items[0].run.id]
        return first if len(group.items) == 1 else f"{first}: {group.told()}"

    def runs_without_times(self) -> list[str]:
        """Names of the runs that have no place on an axis of time."""
        timed = self._timed({metric.key: metric for metric in self.comparison.metrics})
        return [name for run_id, name in self.names.items() if run_id not in timed]

    def reported(self) -> list[str]:
        """Of ``keys`` those that some run has reported, be it without a value."""
        known = {metric.key for metric in self.comparison.metrics}
        return [key for key in self.keys if key in known]

    def not_measured(self, key: str) -> str:
        """In words, which runs have no value of it; empty if all have."""
        missing = self._unmeasured(key)
        if len(missing) == len(self.names):
            return "Not measured in any of these runs."
        return f"Not measured: {', '.join(missing)}" if missing else ""

    def _unmeasured(self, key: str) -> list[str]:
        found = next((metric.values for metric in self.comparison.metrics if metric.key == key), {})
        return [name for run_id, name in self.names.items() if all(value is None for value in found.get(run_id, ()))]

    def phases(self) -> go.Figure | None:
        if not phase_means(self.comparison.metrics, list(self.names)):
            return None
        return phases_by_run(self.comparison.metrics, self.names)

    def amdahl(self) -> go.Figure | None:
        items = self.comparison.items
        return amdahl(items, self.names) if any(item.rollout_speedup and item.e2e_speedup for item in items[1:]) else None

    def response_lengths(self, as_shares: bool) -> go.Figure | None:
        """How many responses are longer than so many tokens, on a log axis, where the tail is seen; or, ``as_shares``, just so long."""
        known = {name: self.lengths.get(run_id, ()) for run_id, name in self.names.items()}
        limit = max((length_limit(item.run.config) for item in self.comparison.items), default=0)
        if not any(known.values()):
            return None
        return distributions(known, limit) if as_shares else survival(known, limit, log=True)

    def _timed(self, metrics: Mapping[str, AlignedMetric]) -> list[str]:
        values = metrics[SECONDS].values if SECONDS in metrics else {}
        return [run_id for run_id, line in values.items() if any(value is not None for value in line)]
