"""Runs: what is submitted, what is shown, and what can be done when."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, computed_field

from longtail.schemas.attempts import GitState
from longtail.schemas.base import Body, Moment, Page, Schema, number, visible
from longtail.schemas.identity import USER_NAME
from longtail.schemas.projects import DEFAULT_PROJECT
from longtail.schemas.telemetry import PretrainingRound

RunKind = Literal["engine", "tracked"]
RunState = Literal["queued", "starting", "running", "paused", "succeeded", "failed", "cancelled"]
Action = Literal["cancel", "pause", "resume", "retry", "clone", "delete"]
Tag = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$"), AfterValidator(visible)]
Notes = Annotated[str, Field(max_length=20_000, pattern=r"^[^\x00]*$", description="Free text")]
Label = Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9][a-z0-9._:-]*$")]
Priority = Annotated[int, Field(ge=-100, le=100, description="Higher goes first; waiting raises it"), BeforeValidator(number)]
BEFORE_STEPS = -1
"""Where a step is told, and the drafter was still being pretrained."""
TERMINAL_STATES: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})
UNFINISHED_STATES: frozenset[str] = frozenset({"queued", "starting", "running", "paused"})
POSSIBLE_IN: dict[Action, frozenset[str]] = {
    "pause": UNFINISHED_STATES - {"paused"},
    "resume": frozenset({"paused"}),
    "cancel": UNFINISHED_STATES,
    "retry": frozenset({"failed", "cancelled"}),
    "clone": UNFINISHED_STATES | TERMINAL_STATES,
    "delete": TERMINAL_STATES,
}
TRACKED_ACTIONS: frozenset[Action] = frozenset({"cancel", "delete"})


def possible(state: str, cancelling: bool, pausing: bool, kind: str = "engine") -> list[Action]:
    """What can be done with a run. A tracked one is its script's business: it can be asked to stop, and be put away."""
    actions = [action for action, states in POSSIBLE_IN.items() if state in states]
    if cancelling and state not in TERMINAL_STATES:
        actions = ["clone"]
    if kind == "tracked":
        return [action for action in actions if action in TRACKED_ACTIONS]
    return [action if action != "pause" else "resume" for action in actions] if pausing else actions


class Submission(Body):
    """A run to accept. ``config`` is a RunConfig (GET /api/v1/schema); keys that are left out take their defaults.

    ``project_id`` null is the token's project, or else the default one. ``source`` is the git state of the folder it is submitted from.
    """

    config: dict[str, Any]
    tags: list[Tag] = Field(default_factory=list, max_length=32)
    priority: Priority = 0
    needs: Label | None = Field(None, description="Label of the workers that may carry it; null: any")
    start_after: Moment | None = Field(None, description="Not before this time")
    project_id: str | None = Field(None, max_length=16)
    notes: Notes = ""
    source: GitState | None = None


class CloneRequest(Body):
    """A run made from another. What is left out is as in that one, but for the notes; ``config`` names only the fields that differ."""

    config: dict[str, Any] = Field({})
    tags: list[Tag] | None = Field(None, max_length=32)
    priority: Priority | None = None
    needs: Label | None = None
    start_after: Moment | None = None
    notes: Notes | None = None


class RunChange(Body):
    """What users can change of a run at any time. What is left out stays. A priority counts while the run is queued. Into another project
    moves who may work in both; the owner, a user's name, is changed by admins."""

    name: Name | None = None
    notes: Notes | None = None
    tags: list[Tag] | None = Field(None, max_length=32)
    priority: Priority | None = None
    project_id: str | None = Field(None, max_length=16)
    owner: str | None = Field(None, max_length=64, pattern=USER_NAME)


class StartingUp(Schema):
    """What an attempt is at before it has done a step; ``since``: when it began with that. ``first_responses`` are those to pretrain the
    drafter on, and ``first_round`` is the attempt's first round of that. ``first_rollout``: ``done`` of ``total`` responses are there."""

    phase: Literal["starting_workers", "measuring_costs", "first_responses", "first_round", "first_rollout"]
    since: datetime
    done: int
    total: int

    @property
    def pretrains(self) -> bool:
        """Whether that is the beginning of training the drafter before the first step."""
        return self.phase in ("first_responses", "first_round")


class Preset(Schema):
    name: str
    title: str
    description: str
    config: dict[str, Any]


class Run(Schema):
    """``step`` counts finished RL steps of ``steps``; ``attempt`` is 0 until a worker takes the run. One of 0 steps only trains a drafter.

    ``pretraining`` is the latest round of training its drafter before the first step, null if there was none. ``drafter_id`` is the
    artifact that its drafter.path auto stands for: empty where none fitted, null until a worker has looked. ``starting_up`` is null
    unless the engine of its latest attempt has begun, and has done neither a step nor a round of pretraining since.

    ``kind`` "tracked": a script elsewhere tells of it; then ``config`` is whatever that script says, and ``steps`` 0 if it does not know.

    ``needs`` is the worker label it waits for, empty for any. ``parent_id`` is the run that it was made from, and ``resumed_step`` the
    step of that one after whose checkpoint it goes on; -1: it goes on with pretraining the drafter. ``actions`` says what can be done with
    it now.

    ``revision`` counts the changes of name, notes, tags, priority, project and owner: it is the ETag that a PATCH can name in If-Match.
    ``source`` is the git state of the folder that it was submitted from.

    ``summary`` holds the latest step's metrics, with ``step_seconds``, ``rollout_share`` and ``harvest`` (trained / idle seconds), and
    means over the latest ten steps: ``reward_recent``, with their standard deviation ``reward_spread``, ``step_seconds_recent`` and
    ``accept_recent``, which before the first step is what training the drafter lets expect. A run that a script tracks has these means
    once it is finished. null: not measured.
    """

    id: str
    name: str
    kind: RunKind = "engine"
    state: RunState
    config: dict[str, Any]
    seed: int
    tags: list[str]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    step: int
    steps: int
    attempt: int
    cancel_requested: bool
    pause_requested: bool = False
    owner: str | None = None
    priority: int = 0
    needs: str = ""
    start_after: datetime | None = None
    parent_id: str | None = None
    resumed_step: int | None = None
    deleted_at: datetime | None = None
    error: str | None
    error_code: str | None
    summary: dict[str, float | None]
    project_id: str = DEFAULT_PROJECT
    notes: str = ""
    revision: int = 0
    source: GitState | None = None
    pretraining: PretrainingRound | None = None
    drafter_id: str | None = None
    starting_up: StartingUp | None = None

    @property
    def finished(self) -> bool:
        return self.state in TERMINAL_STATES

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def actions(self) -> list[Action]:
        return possible(self.state, self.cancel_requested, self.pause_requested, self.kind)

    @property
    def trains_drafter_only(self) -> bool:
        return self.kind == "engine" and self.steps == 0

    @property
    def pretrains(self) -> bool:
        """Whether it trains its drafter before the first step, or did so when it ended."""
        return self.trains_drafter_only or (self.step == 0 and self.pretraining is not None and not self.pretraining.done)

    @property
    def pretrain_minutes(self) -> float:
        """For about how long it trains its drafter before the first step, if that gains something for so long; 0 without."""
        drafter = self.config.get("drafter") if self.kind == "engine" else None
        return float(drafter.get("pretrain_minutes") or 0) if isinstance(drafter, dict) else 0.0

    def seconds_pretrained(self, now: datetime) -> float:
        """Of all attempts together. While it runs they count on since the latest round, or since the attempt that is under way began with
        one, but not beyond the ``end``: then it ends with the round that is under way."""
        latest, at = self.pretraining, self.starting_up
        if latest is None or latest.done or self.state != "running" or (at and at.phase != "first_round"):
            return latest.seconds if latest else 0.0
        since = max(latest.time, at.since.timestamp() if at else 0.0)
        return latest.seconds + max(0.0, min(now.timestamp() - since, latest.end - latest.seconds))

    def seconds_to_pretrain(self, now: datetime) -> float:
        """What is left of that, as it looks now; 0 before the first round, as after the last."""
        return max(0.0, self.pretraining.end - self.seconds_pretrained(now)) if self.pretraining and not self.pretraining.done else 0.0

    @property
    def share_done(self) -> float:
        """Of the time that pretraining takes, while it does that, and else of its steps; where nobody knows how many there are to be, 0
        until it has succeeded."""
        if self.pretrains:
            return self.pretraining.share_done if self.pretraining else float(self.state == "succeeded")
        return min(1.0, self.step / self.steps) if self.steps else float(self.state == "succeeded")

    @property
    def doing(self) -> str:
        """The state, or what it is about to become."""
        if self.state == "queued" or self.finished:
            return self.state
        wish = "cancelling" if self.cancel_requested else "pausing" if self.pause_requested else ""
        return wish or self.state


class RunPage(Page[Run]):
    pass


class RunTotals(Schema):
    """How many runs there are in each state that one of them is in."""

    states: dict[RunState, int]
