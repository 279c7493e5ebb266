"""Runs side by side."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from longtail.schemas.base import Schema
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import Series


class Measures(Schema):
    """A run against the baseline, over the ``steps`` steps from the later beginning of the two to the earlier end.

    ``rollout_share`` is this run's own; a speed-up is the baseline's seconds over this run's. ``reward_first`` and ``reward_last``
    are means over the first and the last quarter of those steps, ``accept_length`` over the last quarter, ``harvest`` is trained
    over idle worker seconds. null: not measured.
    """

    steps: int
    seconds_per_step: float | None = None
    rollout_share: float | None = None
    rollout_speedup: float | None = None
    e2e_speedup: float | None = None
    reward_first: float | None = None
    reward_last: float | None = None
    accept_length: float | None = None
    harvest: float | None = None


class ComparedRun(Measures):
    """``confounders``: dotted fields in which the configuration differs from the baseline's so that the two do different work; then the
    speed-ups are null. Empty where they differ only in how the work is done: speculation, drafter, scheduling, engine, machine, number
    of steps. They are null, too, where a script tracks one of the two: what its configuration says is no account of its work.

    ``shared`` is over the steps that all the compared runs have, as far as they have begun: means over several runs compare by these.
    ``machine`` is what the latest attempt ran on, null where nobody told."""

    run: Run
    reward: Series
    confounders: list[str] = Field(default_factory=list)
    shared: Measures | None = None
    machine: str | None = None


def flat(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted field, value) of all that is no mapping, or an empty one. Lists count as one value."""
    for key, value in section.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


class ConfigDifference(Schema):
    """A dotted field that is not the same in all runs, and its value by run id (null where a run lacks it)."""

    field: str
    values: dict[str, Any]


class AlignedMetric(Schema):
    """A metric of all runs over the same ``steps``, the first of each ``span``: ``values`` are means over those, null where none is."""

    key: str
    span: int
    steps: list[int]
    values: dict[str, list[float | None]]


class Comparison(Schema):
    """``items``: the baseline first, then the other runs in the order asked for. ``metrics``: those asked for by key."""

    baseline: str
    items: list[ComparedRun]
    config_diff: list[ConfigDifference]
    metrics: list[AlignedMetric] = Field(default_factory=list)
