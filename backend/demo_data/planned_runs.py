"""Which runs there are to be, how far each has come, and what was written about it."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from backend.demo_data import texts
from backend.demo_data.experiments import ExperimentRun, experiment
from backend.models.runs import GENERATED
from engine.config import RunConfig, merged
from longtail.durations import DAY_SECONDS
from longtail.schemas.projects import DEFAULT_PROJECT
from longtail.schemas.runs import TERMINAL_STATES, RunState

TAG = "demo-data"
NEWEST = 300
"""So many runs are told at length; those before are short, and leave no artifacts."""
STEPS, SHORT_STEPS = (24, 30, 40, 60, 100), (4, 6, 8, 12)
APART_SECONDS, RECENT_SECONDS = 1500.0, 600.0
ENDED: dict[RunState, int] = {"succeeded": 8, "failed": 1, "cancelled": 1}
UNDER_WAY: dict[RunState, int] = {"running": 4, "queued": 3, "paused": 1, "starting": 1, "succeeded": 2, "failed": 1}
"""By how many of them there are."""
UNDER_WAY_SHARE, LEAST_UNDER_WAY = 0.005, 16
LABELS = ("paper", "nightly", "week 7", "\N{FIRE}")
MANY_METRICS = 180
MANY_EVERY = 40
POINTS_A_STEP = 35


@dataclass(frozen=True)
class PlannedRun:
    """A run, and how far it has come. Times are seconds since the epoch: ``until`` is when it told something last, None: when its steps
    have taken their time. ``leaves`` names its artifacts; ``says`` and ``more_metrics`` are those of telemetry.events."""

    id: str
    config: RunConfig
    state: RunState
    step: int
    created_at: float
    until: float | None = None
    project_id: str = DEFAULT_PROJECT
    owner: str | None = None
    tags: tuple[str, ...] = (TAG,)
    notes: str = ""
    says: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    parent_id: str | None = None
    more_metrics: int = 0


def planned_runs(count: int, seed: int, now: float) -> Iterator[PlannedRun]:
    """So many runs, the oldest first; the same ones for the same arguments."""
    chance = random.Random(seed)
    drafts: list[ExperimentRun] = []
    ended: list[str] = []
    for number in range(count):
        drafts = drafts or experiment(chance)[::-1]
        parent = chance.choice(ended[-20:]) if ended and chance.random() < 0.1 else None
        plan = _planned_run(drafts.pop(), number, count, seed, now, parent, chance)
        if plan.state in TERMINAL_STATES:
            ended.append(plan.id)
        yield plan


def long_run(points: int, seed: int, now: float, number: int = 0) -> PlannedRun:
    """A run of about so many points of metrics; of several, every other one is plain."""
    steps = max(points // POINTS_A_STEP, 1)
    data = {"name": f"{points:,} points", "seed": seed, "algorithm": {"steps": steps}, "checkpoint": {"every": 500}}
    data["speculation"] = {"enabled": number % 2 == 0}
    config = RunConfig.model_validate(data)
    return PlannedRun(
        identity(-1 - number, seed), config, "succeeded", steps, now - 30 * DAY_SECONDS, notes="To see how pages bear a long run."
    )


def identity(number: int, seed: int) -> str:
    """The id of a run: scattered as other runs' are, but told from those by its end."""
    return f"{(number + 1_000_003 * seed) * 2_654_435_761 % 2**32:08x}{GENERATED}"


def _planned_run(
    draft: ExperimentRun, number: int, count: int, seed: int, now: float, parent: str | None, chance: random.Random
) -> PlannedRun:
    left = count - number
    sizes = STEPS if left <= NEWEST else SHORT_STEPS
    steps = sizes[int(draft.size * len(sizes))]
    base = {"name": draft.name, "algorithm": {"steps": steps}}
    config = RunConfig.model_validate(merged(base, draft.changes))
    is_recent = left <= min(max(LEAST_UNDER_WAY, UNDER_WAY_SHARE * count), count / 2)
    states = UNDER_WAY if is_recent else ENDED
    state = chance.choices(list(states), list(states.values()))[0]
    is_strange = draft.kind == "strange"
    return PlannedRun(
        id=identity(number, seed),
        config=config,
        state=state,
        step=steps if state == "succeeded" else 0 if state in ("queued", "starting") else chance.randint(1, steps - 1),
        created_at=now - (left + chance.uniform(-0.4, 0.4)) * APART_SECONDS,
        until=None if not is_recent else now if state == "running" else now - left * RECENT_SECONDS,
        project_id=draft.project_id,
        owner=chance.choice(texts.OWNERS),
        tags=tuple(sorted({TAG, draft.kind, chance.choice(LABELS)})),
        notes=chance.choice(texts.NOTES) if is_strange or chance.random() < 0.15 else "",
        says=texts.LINES if is_strange else (),
        leaves=_artifacts(config) if state == "succeeded" and left <= NEWEST else (),
        parent_id=parent,
        more_metrics=MANY_METRICS if number % MANY_EVERY == MANY_EVERY - 1 else 0,
    )


def _artifacts(config: RunConfig) -> tuple[str, ...]:
    return ("drafter.zip", "policy.zip") if config.speculation.enabled else ("policy.zip",)
